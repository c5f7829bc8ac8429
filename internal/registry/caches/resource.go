package caches

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Resource is one resource with its cache. It lives as long as the resource does: a
// new version, or a changed schema, leaves it and its objects as they are: Read says what readers
// see of these. It is safe for concurrent use.
type Resource struct {
	*stored.Resource

	Cache *watchcache.Cache

	of     *sequence // its store; nil in a mirror
	unread unread
	// endedAt is the revision at which the resource's definition was deleted, 0 as
	// long as there is one. It is set before anything later is published.
	endedAt atomic.Int64
	// selectsFrom is the revision from which on objects are selected by fields as they are now: see
	// SelectsFrom.
	selectsFrom atomic.Int64
	// readings are those of the definition that is in force; nil for a built-in resource.
	readings atomic.Pointer[kinds.Readings]
}

// newResource returns a resource without any objects.
func (q *sequence) newResource(c *kinds.Catalog, gr kinds.GroupResource) *Resource {
	r := &Resource{Resource: q.source.Resource(gr, selectable(c, gr)), of: q}
	cfg := q.set.window
	cfg.Clock, cfg.History = q.clock, r.Resource
	if stored, found := c.Storage(gr); found && stored.Custom {
		r.readings.Store(&stored.Readings)
		cfg.Read = r.Read
	}
	r.Cache = watchcache.New(cfg)
	return r
}

// Mirrored returns a resource whose cache the caller fills, with positions that are revisions of
// the store.
func Mirrored(r *stored.Resource, window watchcache.Config) *Resource {
	window.History, window.Mirror = r, true
	return &Resource{Resource: r, Cache: watchcache.New(window)}
}

// Read returns the read form of an object by the definition that is in force now.
func (r *Resource) Read(o *wire.Object) *wire.Object {
	if all := r.readings.Load(); all != nil {
		return all.Of(o)
	}
	return o
}

// SelectsFrom is the revision of the last edit of the definition that changed what is read of its
// selectable fields. Objects came into a selection by a field, or left it, without an event then: a
// watch of such a selection cannot go on from before.
func (r *Resource) SelectsFrom() kube.ResourceVersion {
	return kube.ResourceVersion(r.selectsFrom.Load())
}

// load gives a resource its state at a revision.
func (r *Resource) load(ctx context.Context, revision int64) error {
	if r.of.set.shared {
		return r.loadReadable(ctx, revision)
	}
	objects, err := r.Load(ctx, revision)
	if err == nil {
		r.Cache.Load(objects, kube.ResourceVersion(revision))
	}
	return err
}

// Ended reports whether the resource's definition was deleted. A request that began
// before may still hold the resource.
func (r *Resource) Ended() bool { return r.endedAt.Load() != 0 }

// Fresh returns a state that has every write that was acknowledged before the call. It
// waits for the publisher. Errors: those of the store and of Whole in a namespace, ctx's cause,
// *kube.TooLargeResourceVersionError after 3 s. In a mirror it is the newest state of the cache:
// who asks has waited for what the other server has.
func (r *Resource) Fresh(ctx context.Context, namespace string) (*watchcache.Snapshot, error) {
	return r.State(ctx, func() error { return r.Whole(namespace) }, r.fresh)
}

// FreshIn is Fresh for who looks at one namespace only: objects of others need not be readable (WholeIn).
func (r *Resource) FreshIn(ctx context.Context, namespace string) (*watchcache.Snapshot, error) {
	return r.State(ctx, func() error { return r.WholeIn(namespace) }, r.fresh)
}

// FreshOf is Fresh for who looks at one object: others need not be readable.
func (r *Resource) FreshOf(ctx context.Context, key wire.Key) (*watchcache.Snapshot, error) {
	return r.State(ctx, func() error { return r.Readable(key) }, r.fresh)
}

func (r *Resource) fresh(ctx context.Context) (*watchcache.Snapshot, error) {
	if r.of == nil {
		return r.Cache.Snapshot(), nil
	}
	progress, err := r.of.store.Progress(ctx)
	if err != nil {
		return nil, stored.Failure(err)
	}
	return r.Cache.WaitFresh(ctx, kube.ResourceVersion(progress))
}

// CheckGiven returns *kube.ExpiredError, with kube.ReasonReplaced, for a resourceVersion that the
// store has not given out yet. A client can know it only from other data than the present: every
// write is durable before it is answered. In a mirror it returns nil. Other errors are those of
// the store.
func (r *Resource) CheckGiven(ctx context.Context, rv kube.ResourceVersion) error {
	if r.of == nil || rv <= r.of.clock.Published() {
		return nil
	}
	progress, err := r.of.store.Progress(ctx)
	if err != nil {
		return stored.Failure(err)
	}
	current := kube.ResourceVersion(progress)
	if rv <= current { // it is about to be published
		return nil
	}
	return &kube.ExpiredError{Requested: rv, Oldest: current, Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
}

// Commit applies one write of an object of the resource. Errors: those of the store.
func (r *Resource) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	return r.of.store.Commit(ctx, t)
}

// WaitPublished blocks until every reader sees everything up to a revision of the resource's store. It
// returns an error when ctx or the publisher ends first; a write that the caller waits for is
// stored all the same.
func (r *Resource) WaitPublished(ctx context.Context, revision int64) error {
	return r.of.waitPublished(ctx, kube.ResourceVersion(revision))
}

// WaitFollowed is WaitPublished for who has written, which it slows down while most watchers are late: watchcache.Cache.Pace.
func (r *Resource) WaitFollowed(ctx context.Context, revision int64) error {
	if err := r.WaitPublished(ctx, revision); err != nil {
		return err
	}
	r.Cache.Pace(ctx)
	return nil
}

// Find returns an object as the cache has it; when the cache has none, as Fresh has
// it. It returns nil when there is none. Errors: those of FreshOf.
func (r *Resource) Find(ctx context.Context, key wire.Key) (*wire.Object, error) {
	if err := r.Readable(key); err != nil {
		return nil, err
	}
	if o, found := r.Cache.Snapshot().Get(key); found {
		return o, nil
	}
	s, err := r.FreshOf(ctx, key)
	if err != nil {
		return nil, err
	}
	o, _ := s.Get(key)
	return o, nil
}

// entry turns a change of the feed into an entry, without the previous object where
// the cache has it.
func (r *Resource) entry(c store.Change) (*watchcache.Entry, error) {
	if !c.Deleted {
		c.Previous = nil
	}
	return r.Entry(c)
}

// maxFields is how many selectable fields an object can have (wire.NewObject).
const maxFields = 64

// selectable returns the selectable fields of all versions of a resource: its
// objects are read once for all of them.
func selectable(c *kinds.Catalog, gr kinds.GroupResource) []wire.FieldPath {
	var fields []wire.FieldPath
	add := func(r *kinds.Resource) {
		for _, f := range r.Fields {
			if !slices.ContainsFunc(fields, func(other wire.FieldPath) bool { return other.Label == f.Label }) {
				fields = append(fields, f)
			}
		}
	}
	if r, found := c.Storage(gr); found {
		add(r)
	}
	for _, r := range c.Resources() {
		if r.GR() == gr && r.Conversion == nil {
			add(r)
		}
	}
	slices.SortFunc(fields, func(a, b wire.FieldPath) int { return cmp.Compare(a.Label, b.Label) })
	return fields[:min(len(fields), maxFields)]
}

func sameFields(a, b []wire.FieldPath) bool {
	return slices.EqualFunc(a, b, func(a, b wire.FieldPath) bool {
		return a.Label == b.Label && a.Default == b.Default && slices.Equal(a.Path, b.Path)
	})
}
