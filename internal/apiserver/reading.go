package apiserver

import (
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/wire"
)

// Reading is what a request for a list or a watch asks for, besides its route.
type Reading struct {
	Form    render.Form
	Options wire.ListOptions // with the name of a deprecated /watch/ path as a field selector
	// Reader serves it; nil: Config.Reader.
	Reader Reader
	// Fallback answers the request, as it came, when Reader returns a *FallbackError; nil: such an error
	// is answered as 500.
	Fallback http.Handler

	renderer *render.Renderer
}

// Read reads what a request for a list or a watch asks for. Errors: 400 and 406.
func Read(r *http.Request, rt *route.Route) (of Reading, err error) {
	if of.Form, err = render.Negotiate(r, rt); err != nil {
		return of, err
	}
	if of.renderer, err = render.New(rt, of.Form); err != nil {
		return of, err
	}
	if of.Options, err = wire.ParseListOptions(rt.Query, rt.Verb == route.Watch); err != nil {
		return of, err
	}
	if err = rt.Resource.CheckFields(of.Options.Fields); err != nil {
		return of, err
	}
	return of, of.nameAsField(rt)
}

// nameAsField makes the name in a deprecated /watch/ path a field selector. No list has a name.
func (of *Reading) nameAsField(rt *route.Route) error {
	selector := &of.Options.Fields
	if rt.Name == "" {
		return nil
	}
	if (*selector).Empty() {
		*selector = fields.OneTermEqualSelector("metadata.name", rt.Name)
	} else if selected, exact := (*selector).RequiresExactMatch("metadata.name"); !exact || selected != rt.Name {
		return wire.BadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return nil
}

// read returns what a request asks for, which may have been read before it came here.
func (s *Server) read(r *http.Request, rt *resolved) (of Reading, err error) {
	if rt.reading != nil {
		of = *rt.reading
	} else if of, err = Read(r, &rt.Route); err != nil {
		return of, err
	}
	if of.Reader == nil {
		of.Reader = s.cfg.Reader
	}
	of.renderer.Share(&s.events)
	return of, nil
}

// FallbackError says that Reading.Fallback is to answer a request, of which nothing was answered.
type FallbackError struct {
	Why string
	// Release is called when it has; nil: nothing is.
	Release func()
}

func (e *FallbackError) Error() string { return "somebody else is to answer this: " + e.Why }

// Released calls Release. It is called once.
func (e *FallbackError) Released() {
	if e.Release != nil {
		e.Release()
	}
}

// fallBack lets Reading.Fallback answer a request if err says so, and reports whether it has.
func fallBack(rec *recorder, r *http.Request, rt resolved, err error) bool {
	fallback, is := errors.AsType[*FallbackError](err)
	if !is {
		return false
	}
	defer fallback.Released()
	if rt.reading == nil || rt.reading.Fallback == nil {
		return false
	}
	clear(rec.Header()) // the answer has its own
	rec.elsewhere = true
	sent := rt.sent.WithContext(r.Context())
	sent.Body = r.Body // within the limits of its client
	rt.reading.Fallback.ServeHTTP(rec, sent)
	return true
}
