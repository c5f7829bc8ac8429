package registry

import (
	"iter"

	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// Collector follows the owners of all objects. Its methods are called one at a time, in
// the order of the revisions, and before the change is visible: who waits for a state
// finds the collector at this state or a later one. They must not block.
type Collector interface {
	// Load gets the objects that a resource has when it begins.
	Load(gr schema.GroupResource, objects iter.Seq[*kube.Object])
	// Changed gets each change: before is nil for a creation, after for a deletion.
	Changed(gr schema.GroupResource, before, after *kube.Object)
	// Forget is called when a resource has ended. Its objects were deleted before, unless
	// someone has removed the finalizer of its definition.
	Forget(gr schema.GroupResource)
	// Defined is called when other resources may be served than before.
	Defined()
}

// loadCollector tells the collector what is stored.
func (r *Registry) loadCollector() {
	all, err := r.caches.All()
	if r.collector == nil || err != nil {
		return // it is loaded: there is no error
	}
	for _, cached := range all {
		r.collector.Load(cached.GR, cached.Cache.Snapshot().Scan("", watchcache.Selection{}))
	}
}

// follower tells the controllers what the publisher does.
type follower struct{ *Registry }

var _ caches.Follower = follower{}

// Appended implements caches.Follower.
func (f follower) Appended(r *caches.Resource, entries []*watchcache.Entry) {
	f.controller.Notify(r, entries)
	if f.collector == nil {
		return
	}
	for _, e := range entries {
		if e.Deleted {
			f.collector.Changed(r.GR, e.Object, nil)
		} else {
			f.collector.Changed(r.GR, e.Previous, e.Object)
		}
	}
}

// Defined implements caches.Follower.
func (f follower) Defined(created, ended *caches.Resource) {
	if f.collector == nil {
		return
	}
	if ended != nil {
		f.collector.Forget(ended.GR)
	}
	if created != nil {
		f.collector.Load(created.GR, created.Cache.Snapshot().Scan("", watchcache.Selection{}))
	}
	f.collector.Defined()
}
