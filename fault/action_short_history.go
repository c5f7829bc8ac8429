package fault

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// ShortHistory ends a watch that resumes from a bookmark with 410: the server sends
// bookmarks, but keeps less history than they promise. A bookmark is refused once.
type ShortHistory struct {
	// Keeps is how long a bookmark can be resumed from; the default is not at all.
	Keeps time.Duration `json:"keeps,omitzero"`

	// mu guards sent, when bookmarks were sent, by their resource versions.
	mu   sync.Mutex
	sent map[string]time.Time
}

// maxBookmarks bounds how many bookmarks are remembered.
const maxBookmarks = 100_000

// Serve implements Action.
func (s *ShortHistory) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	refused := s.forget(r.URL.Query().Get("resourceVersion"))
	Frames(w, r, next, func(f Frame) []Frame {
		switch {
		case f.Type == Opened && refused:
			end := f.Status(&kube.ExpiredError{Requested: rvOf(r), Oldest: rvOf(r) + 1, Kind: kube.ExpiredWatch})
			end.End = Clean
			return []Frame{end}
		case f.Type == "BOOKMARK":
			s.remember(f.About().ResourceVersion)
		}
		return []Frame{f}
	})
}

func (s *ShortHistory) remember(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil || len(s.sent) >= maxBookmarks {
		s.sent = map[string]time.Time{}
	}
	s.sent[rv] = time.Now()
}

// forget reports whether a bookmark had the resource version and is too old.
func (s *ShortHistory) forget(rv string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, was := s.sent[rv]
	if !was || time.Since(at) < s.Keeps {
		return false
	}
	delete(s.sent, rv)
	return true
}

func (s *ShortHistory) check(*Rule, host) error {
	if s.Keeps < 0 {
		return errors.New("with.keeps cannot be negative")
	}
	return nil
}
