package registry

import (
	"context"
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Get returns one object, or its scale. rv is the text of the query's
// resourceVersion: "" is the most recent state, "0" any state,
// a number a state that is not older. Errors: 404, 400 for a malformed
// rv, 500 for a value that cannot be read, *kube.TooLargeResourceVersionError after 3 s.
func (r *Registry) Get(ctx context.Context, t kinds.Target, rv string) (_ *wire.Object, err error) {
	ctx, span := tracing.Start(ctx, "Get")
	defer func() { span.End(err) }()
	cached, err := r.caches.Of(t)
	if err != nil {
		return nil, err
	}
	wanted, err := kube.ParseResourceVersion(rv)
	if err != nil {
		return nil, wire.BadRequest("invalid resource version: %v", err)
	}
	var s *watchcache.Snapshot
	if key := t.Key(); rv == "" {
		s, err = cached.FreshOf(ctx, key)
	} else {
		s, err = cached.State(ctx, func() error { return cached.Readable(key) },
			func(ctx context.Context) (*watchcache.Snapshot, error) { return cached.Cache.WaitFresh(ctx, wanted) })
	}
	if err != nil {
		return nil, err
	}
	o, found := s.Get(t.Key())
	if !found || cached.Ended() {
		return nil, wire.NotFound(t.Resource.GR(), t.Name)
	}
	return r.shown(ctx, t, o)
}

// shown is an object as a target's version and subresource show it.
func (r *Registry) shown(ctx context.Context, t kinds.Target, o *wire.Object) (*wire.Object, error) {
	if t.AsStored {
		return o, nil
	}
	switch t.Subresource {
	case "", "status":
		return r.Show(ctx, t.Resource, o)
	case "scale":
		read, err := r.Show(ctx, t.Resource, o)
		if err != nil {
			return nil, err
		}
		return scale.Read(t, read)
	}
	if sub := t.Resource.Subresource(t.Subresource); sub != nil && slices.Contains(sub.Verbs, "get") {
		return r.Show(ctx, t.Resource, o)
	}
	return nil, wire.NotFound(t.Resource.GR(), t.Name)
}
