package fault

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// Stale answers lists from an older state, as an API server does whose cache lags behind:
// lists that accept it, by a resourceVersion. It is the state of the first such request,
// unless another is given. What asks for a newer one gets 504, as from such a server.
type Stale struct {
	// ResourceVersion is that of the state, and Behind how far it is behind the current one.
	ResourceVersion uint64 `json:"resourceVersion,omitzero"`
	Behind          uint64 `json:"behind,omitzero"`
	// Quorum also makes lists stale that ask for the most recent state, which no correct
	// server does.
	Quorum bool `json:"quorum,omitzero"`

	// mu guards first, the resource version of the first request.
	mu    sync.Mutex
	first uint64
}

// Serve implements Action.
func (s *Stale) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	q := r.URL.Query()
	if q.Get("continue") != "" || q.Get("resourceVersionMatch") == "Exact" || q.Get("resourceVersion") == "" && !s.Quorum {
		next.ServeHTTP(w, r)
		return
	}
	switch at := s.position(r, next); {
	case at == 0: // the list fails anyway
		next.ServeHTTP(w, r)
	case uint64(rvOf(r)) > at:
		Refuse(w, &kube.TooLargeResourceVersionError{Requested: rvOf(r), Current: kube.ResourceVersion(at)})
	default:
		next.ServeHTTP(w, withQuery(r, map[string]string{"resourceVersion": strconv.FormatUint(at, 10), "resourceVersionMatch": "Exact"}))
	}
}

// position returns the resource version to answer from; 0 if it cannot be found out.
func (s *Stale) position(r *http.Request, next http.Handler) uint64 {
	if s.ResourceVersion > 0 {
		return s.ResourceVersion
	}
	s.mu.Lock()
	defer s.mu.Unlock() // also for the list below: the first request decides
	if s.first == 0 || s.Behind > 0 {
		s.first = current(r, next)
	}
	if s.Behind > 0 && s.first > s.Behind {
		return s.first - s.Behind
	}
	return s.first
}

// current asks for the resource version of a list; 0 if it is refused.
func current(r *http.Request, next http.Handler) uint64 {
	peek := withQuery(r, map[string]string{"limit": "1", "resourceVersion": "", "resourceVersionMatch": ""})
	peek.Header.Set("Accept", "application/json")
	peek.Header.Del("Accept-Encoding")
	answer := newRecorder()
	next.ServeHTTP(answer, peek)
	var list metav1.PartialObjectMetadataList
	if json.Unmarshal(answer.body.Bytes(), &list) != nil {
		return 0
	}
	rv, _ := strconv.ParseUint(list.ResourceVersion, 10, 64) // 0 if it is none
	return rv
}

func (s *Stale) check(*Rule, Host) error {
	if s.ResourceVersion > 0 && s.Behind > 0 {
		return errors.New("with.resourceVersion and with.behind are two ways to say which state: set one of them")
	}
	return nil
}
