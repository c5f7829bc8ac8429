package relay

import "github.com/gapless-io/gapless/internal/kinds"

// replacement returns what is closed when upstream's history of a resource is found to be another one.
func (r *Relay) replacement(of *kinds.Resource) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replacedLocked(of.GVR())
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
