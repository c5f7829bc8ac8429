package relay

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/kube"
)

// Reading is a request for a list or a watch of a resource that can be mirrored. The zero value is any
// other request.
type Reading struct {
	Route route.Route
	// Asked is what is read, if the mirror serves it.
	Asked apiserver.Reading
	// Replaced is closed when upstream's history of what is read is found to be another one, after the
	// request came: upstream was restored from a backup. A watch that was passed on must end then, which
	// nobody but the relay notices: kube-apiserver stays silent about a resourceVersion that it has not
	// reached. Nil: it is no watch.
	Replaced <-chan struct{}
}

// Reading returns what a request reads, and whether that is served from the mirror. Everything else is
// for upstream: other verbs and resources, tables whose rows may not be upstream's, selectors that only
// upstream knows, and what is wrong with a request. The first request for a table of a resource waits
// until upstream was asked for one. It says nothing that its caller may not read.
func (r *Relay) Reading(req *http.Request) (of Reading, served bool) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead || !strings.HasPrefix(req.URL.Path, "/api") {
		return Reading{}, false
	}
	rt, err := route.Resolve(r.live.Load(), req)
	if err != nil || rt.Resource == nil {
		if err == nil && rt.BelowVersion() {
			r.Refresh() // it may be new
		}
		return Reading{}, false
	}
	switch rt.Verb {
	case route.List:
	case route.Watch:
		of.Replaced = r.replacement(rt.Resource) // before the history is looked at
	case route.Get:
		if !apiserver.ReadsPast(&rt) {
			return Reading{}, false
		}
	case route.Create, route.Update, route.Patch, route.Delete, route.DeleteCollection, route.Other:
		return Reading{}, false
	}
	of.Route = rt
	return of, servedForm(req.Header) && r.read(req, &of)
}

// read reads the rest of a request, and reports whether the mirror serves it.
func (r *Relay) read(req *http.Request, of *Reading) (served bool) {
	var err error
	if of.Asked, err = apiserver.Read(req, &of.Route); err != nil {
		return false
	}
	if c := r.known(of.Route.Resource); c != nil && c.failed(nil) != nil {
		return false
	}
	from := reader{relay: r}
	if of.Asked.Form.IsTable() {
		if from.table = r.tables.of(req.Context(), of.Route.Resource); from.table == nil {
			return false
		}
		if shown := from.table.resource; shown != of.Route.Resource { // its rows are known only now
			of.Route.Resource = shown
			if of.Asked, err = apiserver.Read(req, &of.Route); err != nil {
				return false
			}
		}
	}
	of.Asked.Reader = from
	return true
}

// servedForm reports whether the mirror has what a request accepts: CBOR is upstream's.
func servedForm(h http.Header) bool {
	return !slices.ContainsFunc(h.Values("Accept"), func(v string) bool { return strings.Contains(v, "application/cbor") })
}

// Age returns how long ago upstream last answered about what is read; 0 if that is not known.
func (r *Relay) Age(of Reading) time.Duration {
	at := r.contact(of.Route.Resource)
	if at.IsZero() {
		return 0
	}
	return time.Since(at)
}

// WhyReplaced is the 410 for a watch that ends because of Reading.Replaced.
func (r *Relay) WhyReplaced(of Reading) error {
	e := &kube.ExpiredError{Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
	e.Requested, _ = kube.ParseResourceVersion(of.Route.Query.Get("resourceVersion")) // 0 where there is none
	if c := r.known(of.Route.Resource); c != nil {
		if h := c.current.Load(); h != nil {
			e.Oldest = h.log.Reached()
		}
	}
	return e
}
