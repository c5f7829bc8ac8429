package relay

import (
	"net/http"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/kube"
)

// Replaced returns what is closed when upstream's history of what is read is found to be another one:
// upstream was restored from a backup. A watch that was passed on must end then, which nobody but the
// relay notices: kube-apiserver stays silent about a resourceVersion that it has not reached. Nil: what
// is read is no watch, or of a resource that is not known.
func (r *Relay) Replaced(of Reading) <-chan struct{} {
	if of.resource == nil || !of.watch {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replacedLocked(of.resource.GVR())
}

func (r *Relay) replacedLocked(gvr kinds.GroupVersionResource) chan struct{} {
	if r.replaced[gvr] == nil {
		r.replaced[gvr] = make(chan struct{})
	}
	return r.replaced[gvr]
}

// endPassed ends the watches of a resource that were passed on.
func (r *Relay) endPassed(resource *kinds.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.replacedLocked(resource.GVR()))
	delete(r.replaced, resource.GVR())
}

// WhyReplaced is the 410 for a watch that ends because of Replaced.
func (r *Relay) WhyReplaced(req *http.Request) error {
	e := &kube.ExpiredError{Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
	e.Requested, _ = kube.ParseResourceVersion(req.URL.Query().Get("resourceVersion")) // 0 where there is none
	of, _ := r.Reading(req)
	if of.resource == nil {
		return e
	}
	if c := r.known(of.resource); c != nil {
		if h := c.current.Load(); h != nil {
			e.Oldest = h.log.Reached()
		}
	}
	return e
}
