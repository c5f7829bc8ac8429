package fault

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/gapless-io/gapless/internal/faulthost"
)

// controllerWrite is a faulthost.Writer.
func (s *Set) controllerWrite(ctx context.Context, w faulthost.Write, write func() error) error {
	rules := s.rules.Load()
	if rules == nil {
		return write()
	}
	q := Request{Verb: w.Verb, Group: w.Group, Resource: w.Resource, Namespace: w.Namespace, Name: w.Name}
	header := http.Header{"User-Agent": {w.Controller}}
	r := (&http.Request{Method: q.Verb, URL: &url.URL{Path: "/" + w.Controller}, Header: header}).WithContext(ctx)
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
