package fault

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/fault/internal/frames"
	"github.com/gapless-io/gapless/kube"
)

// Stale answers from an older state, as an API server does whose cache lags behind: lists and
// gets that accept it, by a resourceVersion, and watches, which get no newer events. It is the
// state of the first such request, unless another is given. What asks for a newer one gets
// 504, as from such a server. Tables are not stale in watches.
type Stale struct {
	// ResourceVersion is that of the state, and Behind how far it is behind the current one.
	ResourceVersion uint64 `json:"resourceVersion,omitzero"`
	Behind          uint64 `json:"behind,omitzero"`
	// Quorum also makes requests stale that ask for the most recent state, which no correct
	// server does.
	Quorum bool `json:"quorum,omitzero"`

	// mu guards first, the resource version of the first request.
	mu    sync.Mutex
	first uint64
}

// maxBehind bounds the events that a watch holds.
const maxBehind = 100_000

// Serve implements Action.
func (s *Stale) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	q, what := r.URL.Query(), RequestOf(r)
	from := q.Get("resourceVersion")
	initial := what.Verb == "watch" && (from == "" || from == "0" || isTrue(q["sendInitialEvents"]))
	switch {
	case q.Get("continue") != "" || q.Get("resourceVersionMatch") == "Exact" || from == "" && !s.Quorum,
		what.Subresource != "", what.Verb == "watch" && !isPlainWatch(r):
		next.ServeHTTP(w, r)
		return
	}
	at := s.position(r)
	switch {
	case at == 0: // the request fails anyway
		next.ServeHTTP(w, r)
	case uint64(rvOf(r)) > at && (what.Verb != "watch" || initial):
		Refuse(w, &kube.TooLargeResourceVersionError{Requested: rvOf(r), Current: kube.ResourceVersion(at)})
	case what.Verb == "watch":
		s.watch(w, r, next, at)
	case what.Verb == "get":
		getAt(w, r, what, at)
	default:
		next.ServeHTTP(w, withQuery(r, exactly(at)))
	}
}

// exactly are the parameters of a list at a resource version.
func exactly(rv uint64) map[string]string {
	return map[string]string{"resourceVersion": strconv.FormatUint(rv, 10), "resourceVersionMatch": "Exact"}
}

// position returns the resource version to answer from; 0 if it cannot be found out.
func (s *Stale) position(r *http.Request) uint64 {
	if s.ResourceVersion > 0 {
		return s.ResourceVersion
	}
	s.mu.Lock()
	defer s.mu.Unlock() // also for the list below: the first request decides
	if s.first == 0 || s.Behind > 0 {
		s.first = current(r)
	}
	if s.Behind > 0 && s.first > s.Behind {
		return s.first - s.Behind
	}
	return s.first
}

// current asks for the resource version of a list; 0 if it is refused.
func current(r *http.Request) uint64 {
	var list metav1.PartialObjectMetadataList
	if json.Unmarshal(ask(r, "application/json", map[string]string{"limit": "1"}).Body.Bytes(), &list) != nil {
		return 0
	}
	rv, _ := strconv.ParseUint(list.ResourceVersion, 10, 64) // 0 if it is none
	return rv
}

// ask lists the collection of a request, as far as its selectors select it.
func ask(r *http.Request, accept string, set map[string]string) *frames.Recorder {
	q := r.URL.Query()
	only := map[string]string{"labelSelector": q.Get("labelSelector"), "fieldSelector": q.Get("fieldSelector")}
	for key := range q {
		if _, kept := only[key]; !kept {
			only[key] = "" // removes it
		}
	}
	maps.Copy(only, set)
	list := withQuery(r, only)
	list.Method = http.MethodGet
	for key := range list.Header {
		if key == "Accept-Encoding" || key == "Connection" || key == "Upgrade" || strings.HasPrefix(key, "Sec-Websocket-") {
			list.Header.Del(key)
		}
	}
	list.Header.Set("Accept", cmp.Or(accept, "application/json"))
	if name := RequestOf(r).Name; name != "" {
		list.URL.Path, list.URL.RawPath = strings.TrimSuffix(strings.TrimRight(list.URL.Path, "/"), "/"+name), ""
		list.RequestURI = list.URL.RequestURI()
	}
	answer := frames.NewRecorder(maxFrame)
	if server := injectionOf(r.Context()).handler.next; server != nil {
		server.ServeHTTP(answer, list)
	}
	return answer
}

func (s *Stale) check(*Rule, host) error {
	switch {
	case s.ResourceVersion > 0 && s.Behind > 0:
		return errors.New("with.resourceVersion and with.behind are two ways to say which state: set one of them")
	case s.Behind > maxBehind:
		return errors.New("with.behind: want at most 100000, because watches hold the events in between")
	}
	return nil
}
