package caches

import (
	"iter"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// Find returns an object as its cache has it, in its storage version; nil if there is none.
func (s *Set) Find(gr schema.GroupResource, key kube.Key) *kube.Object {
	cached := s.Lookup(gr)
	if cached == nil {
		return nil
	}
	o, _ := cached.Cache.Snapshot().Get(key)
	return o
}

// Objects yields the objects of a resource, in one namespace or ("") all, as its cache has
// them, in their storage version.
func (s *Set) Objects(gr schema.GroupResource, namespace string) iter.Seq[*kube.Object] {
	cached := s.Lookup(gr)
	if cached == nil {
		return func(func(*kube.Object) bool) {}
	}
	return cached.Cache.Snapshot().Scan("", watchcache.Selection{Namespace: namespace})
}

// Service returns a service; nil if there is none. It is for calls of webhooks.
func (s *Set) Service(namespace, name string) *kube.Object {
	return s.Find(schema.GroupResource{Resource: "services"}, kube.Key{Namespace: namespace, Name: name})
}

// Endpoints returns the endpoint slices of a service.
func (s *Set) Endpoints(namespace, service string) []*kube.Object {
	var found []*kube.Object
	for o := range s.Objects(schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, namespace) {
		if o.Labels()["kubernetes.io/service-name"] == service {
			found = append(found, o)
		}
	}
	return found
}
