package relay

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Reading is a request for a list or a watch of a resource that can be mirrored. The zero value is any
// other request.
type Reading struct {
	resource *kinds.Resource
	watch    bool
	table    *decision // nil: it is not for a table
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
	if rt.Verb != route.List && rt.Verb != route.Watch {
		return Reading{}, false
	}
	of = Reading{resource: rt.Resource, watch: rt.Verb == route.Watch}
	if !servedForm(req.Header) {
		return of, false
	}
	form, err := render.Negotiate(req, &rt)
	if err != nil {
		return of, false
	}
	o, err := wire.ParseListOptions(rt.Query, of.watch)
	if err != nil || rt.Resource.CheckFields(o.Fields) != nil {
		return of, false
	}
	if c := r.known(rt.Resource); c != nil && c.failed(nil) != nil {
		return of, false
	}
	if form.IsTable() {
		if of.table = r.tables.of(req.Context(), rt.Resource); of.table == nil {
			return of, false
		}
	}
	return of, true
}

// servedForm reports whether the mirror has what a request accepts: CBOR is upstream's.
func servedForm(h http.Header) bool {
	return !slices.ContainsFunc(h.Values("Accept"), func(v string) bool { return strings.Contains(v, "application/cbor") })
}

// tableKey is the key of the decision to serve a table, in the context of a request.
type tableKey struct{}

// Context returns the context in which the request is served. It says that a table is read.
func (of Reading) Context(ctx context.Context) context.Context {
	if of.table == nil {
		return ctx
	}
	return context.WithValue(ctx, tableKey{}, of.table)
}

// tableOf returns the decision to serve a table of a resource that a request is for, nil if it is not for a table.
// The rows of another state of the resource, which has come meanwhile, are upstream's.
func tableOf(ctx context.Context, resource *kinds.Resource) (*decision, error) {
	d, _ := ctx.Value(tableKey{}).(*decision)
	if d != nil && d.resource != resource {
		return nil, &PassError{why: "the columns of the resource have changed"}
	}
	return d, nil
}

// Age returns how long ago upstream last answered about what is read; 0 if that is not known.
func (r *Relay) Age(of Reading) time.Duration {
	at := r.contact(of.resource)
	if at.IsZero() {
		return 0
	}
	return time.Since(at)
}
