package caches

import (
	"context"
	"iter"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// Find returns the read form of an object that a cache has, in its storage version; nil if there
// is none.
func (s *Set) Find(gr kinds.GroupResource, key wire.Key) *wire.Object {
	cached := s.Lookup(gr)
	if cached == nil {
		return nil
	}
	o, found := cached.Cache.Snapshot().Get(key)
	if !found {
		return nil
	}
	return cached.Read(o)
}

// FindFresh returns an object as Find does; when the cache has none, as Resource.Fresh has it.
// It returns nil when there is none. Errors: those of Resource.FreshOf.
func (s *Set) FindFresh(ctx context.Context, gr kinds.GroupResource, key wire.Key) (*wire.Object, error) {
	cached := s.Lookup(gr)
	if cached == nil {
		return nil, s.Unread(gr)
	}
	o, err := cached.Find(ctx, key)
	if o == nil || err != nil {
		return nil, err
	}
	return cached.Read(o), nil
}

// Objects yields the objects of a resource, in one namespace or ("") all, as Find returns them.
func (s *Set) Objects(gr kinds.GroupResource, namespace string) iter.Seq[*wire.Object] {
	cached := s.Lookup(gr)
	if cached == nil {
		return func(func(*wire.Object) bool) {}
	}
	objects := cached.Cache.Snapshot().Scan("", watchcache.Selection{Namespace: namespace})
	return func(yield func(*wire.Object) bool) {
		for o := range objects {
			if !yield(cached.Read(o)) {
				return
			}
		}
	}
}

// Service returns a service; nil if there is none. It is for calls of webhooks.
func (s *Set) Service(namespace, name string) *wire.Object {
	return s.Find(kinds.GroupResource{Resource: "services"}, wire.Key{Namespace: namespace, Name: name})
}

// Endpoints returns the endpoint slices of a service.
func (s *Set) Endpoints(namespace, service string) []*wire.Object {
	var found []*wire.Object
	for o := range s.Objects(kinds.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, namespace) {
		if o.Labels()["kubernetes.io/service-name"] == service {
			found = append(found, o)
		}
	}
	return found
}
