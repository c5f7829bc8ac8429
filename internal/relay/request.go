package relay

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Reading is a request for a list or a watch that is served from the mirror.
type Reading struct{ resource *schema.Resource }

// Reading returns what a request reads from the mirror, and whether it does. Everything else is for
// upstream: other verbs and resources, tables (which have upstream's columns), selectors that only
// upstream knows, and what is wrong with a request.
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
	if rt.Verb != route.List && rt.Verb != route.Watch || !servedForm(req.Header) {
		return Reading{}, false
	}
	o, err := kube.ParseListOptions(rt.Query, rt.Verb == route.Watch)
	if err != nil || rt.Resource.CheckFields(o.Fields) != nil {
		return Reading{}, false
	}
	if c := r.known(rt.Resource); c != nil && c.failed(nil) != nil {
		return Reading{}, false
	}
	return Reading{rt.Resource}, true
}

// servedForm reports whether the mirror has what a request accepts.
func servedForm(h http.Header) bool {
	return !slices.ContainsFunc(h.Values("Accept"), func(v string) bool {
		return strings.Contains(v, "as=Table") || strings.Contains(v, "application/cbor")
	})
}

// Age returns how long ago upstream last answered about what is read; 0 if that is not known.
func (r *Relay) Age(of Reading) time.Duration {
	c := r.known(of.resource)
	if c == nil {
		return 0
	}
	reads := c.reads.Load()
	if reads == nil {
		return 0
	}
	at := reads.Status().LastContact
	if at.IsZero() {
		return 0
	}
	return time.Since(at)
}
