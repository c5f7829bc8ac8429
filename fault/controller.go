package fault

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ControllerWrite calls write for one of the server's own controllers, which writes without a
// request, or does what rules say: those with the action StoreWrite whose match names the
// controller as a user agent. Others are for the requests of clients only, so that a count or an
// nth does not depend on what controllers do meanwhile.
func (s *Set) ControllerWrite(ctx context.Context, controller string, q Request, write func() error) error {
	rules := s.rules.Load()
	if rules == nil {
		return write()
	}
	r := (&http.Request{Method: q.Verb, URL: &url.URL{Path: "/" + controller}, Header: http.Header{"User-Agent": {controller}}}).WithContext(ctx)
	return s.throughRules(r, &q, *rules, write)
}

func (s *Set) throughRules(r *http.Request, q *Request, rules []*active, write func() error) error {
	for i, a := range rules {
		action, is := a.rule.Action.(*StoreWrite)
		if !is || len(a.rule.Match.UserAgents) == 0 || !a.fits(q, r) || !a.acts(time.Now()) {
			continue
		}
		s.tell(a, q, r)
		in := newInjection(s.Handler(nil), a)
		defer in.forget()
		around := action.around(in.context(r.Context()))
		return around(r.Context(), func() error { return s.throughRules(r, q, rules[i+1:], write) })
	}
	return write()
}
