package registry

import (
	"context"

	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// Get returns one object, or its scale. rv is the text of the query's
// resourceVersion (server.md 1.1): "" is the most recent state, "0" whatever is
// at hand, a number a state that is not older. Errors: 404, 400 for a malformed
// rv, *kube.TooLargeResourceVersionError after 3 s.
func (r *Registry) Get(ctx context.Context, t schema.Target, rv string) (*kube.Object, error) {
	k, err := r.kind(t)
	if err != nil {
		return nil, err
	}
	wanted, err := kube.ParseResourceVersion(rv)
	if err != nil {
		return nil, kube.BadRequest("invalid resource version: %v", err)
	}
	var s *watchcache.Snapshot
	switch {
	case rv == "":
		s, err = r.fresh(ctx, k)
	case wanted == 0:
		s = k.cache.Snapshot()
	default:
		s, err = k.cache.WaitFresh(ctx, wanted)
	}
	if err != nil {
		return nil, err
	}
	o, found := s.Get(keyOf(t))
	if !found || k.gone.Load() != 0 {
		return nil, kube.NotFound(t.Resource.GR(), t.Name)
	}
	return shown(t, o)
}

// shown is an object as a target's version and subresource show it.
func shown(t schema.Target, o *kube.Object) (*kube.Object, error) {
	switch t.Subresource {
	case "", "status":
		return o.WithAPIVersion(t.Resource.APIVersion()), nil
	case "scale":
		return scale.Of(t, o)
	}
	return nil, kube.NotFound(t.Resource.GR(), t.Name)
}

// fresh returns a state that has every write that was acknowledged before.
func (r *Registry) fresh(ctx context.Context, k *kind) (*watchcache.Snapshot, error) {
	progress, err := r.store.Progress(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	return k.cache.WaitFresh(ctx, kube.ResourceVersion(progress))
}

// find returns an object as the cache has it; when it has none, as the most
// recent state has it. nil: there is none.
func (r *Registry) find(ctx context.Context, k *kind, key kube.Key) (*kube.Object, error) {
	if o, found := k.cache.Snapshot().Get(key); found {
		return o, nil
	}
	s, err := r.fresh(ctx, k)
	if err != nil {
		return nil, err
	}
	o, _ := s.Get(key)
	return o, nil
}
