package registry

import (
	"context"
	"iter"
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// Collector follows all objects, such as their owners. Its methods are called one at a time, in
// the order of the revisions, and before the change is visible: who waits for a state
// finds the collector at this state or a later one. They must not block.
type Collector interface {
	// Load gets the objects that a resource has when it begins.
	Load(gr kinds.GroupResource, objects iter.Seq[*wire.Object])
	// Changed gets each change: before is nil for a creation, after for a deletion.
	Changed(gr kinds.GroupResource, before, after *wire.Object)
	// Forget is called when a resource has ended. Its objects were deleted before, unless
	// someone has removed the finalizer of its definition.
	Forget(gr kinds.GroupResource)
	// Defined is called when other resources may be served than before.
	Defined()
}

// Follower keeps something in memory that is made of the objects of some resources, such as
// roles. Its methods are called one at a time, in the order of the revisions, and before the
// writer of a change is answered. They must not block, and be quick: decoding and compiling can
// wait until the result is needed. Objects are in their storage version.
type Follower interface {
	// Follows are built-in resources.
	Follows() []kinds.GroupResource
	// Replace gets all objects of a resource, before any request is served.
	Replace(gr kinds.GroupResource, objects []*wire.Object)
	// Change gets the new state of an object, or the last one of an object that was deleted.
	Change(gr kinds.GroupResource, o *wire.Object, deleted bool)
}

// Find returns the read form of an object as the watch cache has it, in its storage version; nil
// if there is none.
func (r *Registry) Find(gr kinds.GroupResource, key wire.Key) *wire.Object {
	return r.caches.Find(gr, key)
}

// FindFresh is Find, but where the cache has none, the object is one of a state that has every write which was
// acknowledged before the call. It blocks until there is that state; what followers have is not older then. Errors: the
// object cannot be read; those of the store; ctx's cause.
func (r *Registry) FindFresh(ctx context.Context, gr kinds.GroupResource, key wire.Key) (*wire.Object, error) {
	return r.caches.FindFresh(ctx, gr, key)
}

// Objects yields the objects of a resource, in one namespace or ("") all, as Find has them.
func (r *Registry) Objects(gr kinds.GroupResource, namespace string) iter.Seq[*wire.Object] {
	return r.caches.Objects(gr, namespace)
}

// Fresh waits until Find and Objects of a resource, and its followers, have all writes that were acknowledged before the
// call, but for objects whose latest value cannot be read: see Unread. Errors: the store cannot be asked; ctx's cause.
func (r *Registry) Fresh(ctx context.Context, gr kinds.GroupResource) error {
	cached := r.caches.Lookup(gr)
	if cached == nil {
		return nil
	}
	_, err := cached.FreshOf(ctx, wire.Key{}) // of none
	return err
}

// Unread returns an error that names an object of a resource whose latest value cannot be read: of one key, or (the
// zero Key) of any; nil if there is none. An earlier value may be known.
func (r *Registry) Unread(gr kinds.GroupResource, key wire.Key) error {
	cached := r.caches.Lookup(gr)
	switch {
	case cached == nil:
		return nil
	case key == wire.Key{}:
		return cached.Whole("")
	}
	return cached.Readable(key)
}

func followersOf(all []Follower) map[kinds.GroupResource][]Follower {
	by := map[kinds.GroupResource][]Follower{}
	for _, f := range all {
		for _, gr := range f.Follows() {
			by[gr] = append(by[gr], f)
		}
	}
	return by
}

// loadFollowers tells the collector and the followers what is stored.
func (r *Registry) loadFollowers() {
	all, err := r.caches.All()
	if err != nil {
		return // it is loaded: there is no error
	}
	for _, cached := range all {
		r.load(cached)
	}
}

// load tells the collector and the followers what is stored of a resource.
func (r *Registry) load(cached *caches.Resource) {
	objects := cached.Cache.Snapshot().Scan("", watchcache.Selection{})
	for _, c := range r.collectors {
		c.Load(cached.GR, objects)
	}
	for _, f := range r.followers[cached.GR] {
		f.Replace(cached.GR, slices.Collect(objects))
	}
}

// follower tells the controllers what the publisher does.
type follower struct{ *Registry }

var _ caches.Follower = follower{}

// Loaded implements caches.Follower.
func (f follower) Loaded(r *caches.Resource) { f.load(r) }

// Appended implements caches.Follower.
func (f follower) Appended(r *caches.Resource, entries []*watchcache.Entry) {
	f.controller.Notify(r, entries)
	for _, other := range f.followers[r.GR] {
		for _, e := range entries {
			other.Change(r.GR, e.Object, e.Deleted)
		}
	}
	for _, c := range f.collectors {
		for _, e := range entries {
			if e.Deleted {
				c.Changed(r.GR, e.Object, nil)
			} else {
				c.Changed(r.GR, e.Previous, e.Object)
			}
		}
	}
}

// Defined implements caches.Follower.
func (f follower) Defined(created, ended *caches.Resource) {
	for _, c := range f.collectors {
		if ended != nil {
			c.Forget(ended.GR)
		}
		if created != nil {
			c.Load(created.GR, created.Cache.Snapshot().Scan("", watchcache.Selection{}))
		}
		c.Defined()
	}
}
