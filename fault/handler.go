package fault

import (
	"net/http"
	"strings"
	"time"

	"github.com/gapless-io/gapless/fault/internal/frames"
)

// Handler applies the rules of a set to the requests for a server.
type Handler struct {
	set   *Set
	next  http.Handler
	drain ending
}

// Handler returns a handler that applies the rules to requests for next. A request that no
// rule matches gets the original ResponseWriter.
func (s *Set) Handler(next http.Handler) *Handler { return &Handler{set: s, next: next} }

// Drain ends what the rules do to requests of this handler, as if they were removed, so that the
// server can stop: requests that wait go on, and connections that cannot be repaired are cut. The
// rules stay, and are applied to the requests that still come.
func (h *Handler) Drain() { h.drain.end() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rules := h.set.rules.Load()
	if rules == nil || isAdmin(r.URL.Path) {
		h.next.ServeHTTP(w, r)
		return
	}
	if h.set.conns.IsDown() {
		panic(http.ErrAbortHandler)
	}
	q := RequestOf(r)
	for i, a := range *rules {
		if a.fits(&q, r) && a.acts(time.Now()) {
			rest := &remaining{handler: h, rules: (*rules)[i+1:], asked: q}
			rest.apply(a, w, r)
			return
		}
	}
	h.next.ServeHTTP(w, r)
}

func isAdmin(path string) bool {
	return path == AdminPath || strings.HasPrefix(path, AdminPath+"/") || strings.HasPrefix(path, CallsPath)
}

// remaining is the server behind rules that a request has not passed yet: they see it only if
// those before them let it pass.
type remaining struct {
	handler *Handler
	rules   []*active
	asked   Request
}

// apply applies a rule to a request, whose next handler is what remains.
func (s *remaining) apply(a *active, w http.ResponseWriter, r *http.Request) {
	s.handler.set.tell(a, &s.asked, r)
	in := newInjection(s.handler, a)
	if !frames.IsUpgrade(r) { // which may outlive its handler
		defer in.forget()
	}
	a.rule.Action.Serve(w, r.WithContext(in.context(r.Context())), s)
}

// ServeHTTP implements http.Handler.
func (s *remaining) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for i, a := range s.rules {
		if a.fits(&s.asked, r) && a.acts(time.Now()) {
			rest := *s
			rest.rules = s.rules[i+1:]
			rest.apply(a, w, r)
			return
		}
	}
	s.handler.next.ServeHTTP(w, r)
}
