package registry

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// How much of the initial state one call of Next returns at most. A single object may be
// larger than the byte limit.
const (
	maxBatchEvents = 256
	maxBatchBytes  = 1 << 20
)

// Watch opens a WATCH by wire.PlanWatch. With initial events the
// last of them is InitialEventsEnd, whether or not the client asked for the
// bookmark; when that has Since, they are a delta (docs/extensions.md). When the
// resource's definition is deleted, or the version that is watched is no longer
// served, or its objects are converted in another way, Next returns io.EOF after
// everything before: the stream ends like by its timeout. When what is read of a field
// that selects has changed, Next returns *kube.ExpiredError. Errors: those of PlanWatch,
// 400 for a field that cannot be selected by and for a bad shard selector,
// *kube.ExpiredError, also for a resourceVersion that was never given out,
// *kube.TooLargeResourceVersionError after 3 s with initial events, 500 while a value cannot be read: Next
// returns that too, and *kube.ExpiredError if it was so meanwhile.
func (r *Reader) Watch(ctx context.Context, t kinds.Target, o wire.ListOptions) (wire.Watch, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, err
	}
	if err := t.Resource.CheckFields(o.Fields); err != nil {
		return nil, err
	}
	plan, err := wire.PlanWatch(o)
	if err != nil {
		return nil, err
	}
	return r.watch(ctx, watching{t, o, plan, cached})
}

// WatchPlanned is Watch for who has checked the fields of the options, and planned: resourceVersions are the
// plan's, and those of the options do not count.
func (r *Reader) WatchPlanned(ctx context.Context, t kinds.Target, o wire.ListOptions, plan wire.WatchPlan) (wire.Watch, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, err
	}
	return r.watch(ctx, watching{t, o, plan, cached})
}

// watching is a watch of a resource.
type watching struct {
	target  kinds.Target
	options wire.ListOptions
	plan    wire.WatchPlan
	cached  *caches.Resource
}

func (r *Reader) watch(ctx context.Context, of watching) (_ wire.Watch, err error) {
	t, o, plan, cached := of.target, of.options, of.plan, of.cached
	w := &watch{
		cached: cached, resource: t.Resource, sel: selection(t, o), wholeFrom: cached.WholeFrom(),
	}
	if err := cached.Whole(t.Namespace); err != nil {
		return nil, err
	}
	if t.Resource.Readings != nil {
		w.sel.Read = cached.Read // an edit of the definition is seen at once
	}
	if !t.Resource.Converts() &&
		(t.Resource.Conversion != nil || t.Resource.Custom || t.Resource.Version != t.Resource.StorageVersion) {
		w.sel.Form = &watchcache.Form{APIVersion: t.Resource.APIVersion(), Convert: t.Resource.Show}
	}
	if w.sel.Shard, err = shardOf(o); err != nil {
		return nil, err
	}
	if w.byField = t.Resource.Readings != nil && selectsByContent(o.Fields); w.byField {
		// Before the state is read: an edit after this ends the watch.
		if w.selects = cached.SelectsFrom(); plan.RV < w.selects {
			if plan.Start == wire.WatchAfter {
				return nil, w.expired(plan.RV)
			}
			plan.Delta = false
		}
	}
	var after *watchcache.Selection
	inside := w.sel.LooksInside()
	if t.Resource.Converts() {
		w.asStored = true
		if w.sel, after = outside(t.Resource, w.sel); after != nil {
			plan.Delta = false // only the converted objects show what has left the selection
		}
	}
	if err := r.open(ctx, w, plan); err != nil {
		return nil, err
	}
	w.cursor.Until(func() bool {
		if w.interrupted() != nil {
			return true
		}
		if !t.Resource.Custom || r.live == nil {
			return false
		}
		now, served := r.defined(t.Resource)
		return !served || otherwise(now, t.Resource, inside) || w.outdated()
	})
	if w.asStored {
		return newConverting(ctx, w, r, after), nil
	}
	return w, nil
}

// selectsByContent reports whether a field selector looks at more than the name and namespace.
func selectsByContent(s fields.Selector) bool {
	return s != nil && slices.ContainsFunc(s.Requirements(), func(r fields.Requirement) bool {
		return r.Field != "metadata.name" && r.Field != "metadata.namespace"
	})
}

// defined returns a version of a custom resource as its definition is now, and whether it is
// served.
func (r *Reader) defined(was *kinds.Resource) (now *kinds.Resource, served bool) {
	return r.live.Load().Lookup(was.GVR())
}

// otherwise reports whether the objects of a watch are converted in another way than when it was
// opened, or, if its selection looks inside, selected in another one. It ends then, and its client
// goes on with another watch.
func otherwise(now, was *kinds.Resource, inside bool) bool {
	return now.Converts() != was.Converts() || inside && mayCall(now) != mayCall(was)
}

// openAttempts bounds how often a watch that names no resourceVersion begins again
// because the history after its beginning was compacted meanwhile.
const openAttempts = 3

// open gives the watch its initial state and its cursor.
func (r *Reader) open(ctx context.Context, w *watch, plan wire.WatchPlan) error {
	for attempt := 1; ; attempt++ {
		after, err := r.begin(ctx, w, plan)
		if err != nil {
			return err
		}
		w.cursor, err = w.cached.Cache.CursorAfter(ctx, after, w.sel)
		w.at = after
		_, expired := errors.AsType[*kube.ExpiredError](err)
		if !expired || plan.Start == wire.WatchAfter || attempt == openAttempts {
			return err
		}
		w.initial, w.delta, w.since = nil, nil, 0
	}
}

// begin gives the watch its initial state, if it has one, and returns the
// resourceVersion that its changes come after.
func (r *Reader) begin(ctx context.Context, w *watch, plan wire.WatchPlan) (after kube.ResourceVersion, err error) {
	cache := w.cached.Cache
	switch plan.Start {
	case wire.WatchInitialConsistent:
		w.initial, err = w.cached.Fresh(ctx, w.sel.Namespace)
	case wire.WatchInitialAny:
		w.initial = cache.Snapshot()
	case wire.WatchInitialNotOlderThan:
		w.initial, err = cache.WaitFresh(ctx, plan.RV)
	case wire.WatchFromNow:
		var now *watchcache.Snapshot
		if now, err = w.cached.Fresh(ctx, w.sel.Namespace); err == nil {
			return now.RV(), nil
		}
	case wire.WatchFromCache:
		return cache.Snapshot().RV(), nil
	case wire.WatchAfter:
		// Upstream waits in silence: with several servers another one may have given it out.
		err = w.cached.CheckGiven(ctx, plan.RV)
	}
	switch {
	case err != nil:
		return 0, err
	case w.initial == nil:
		return plan.RV, nil
	case plan.Delta:
		err = w.useDelta(ctx, plan.RV)
	}
	return w.initial.RV(), err
}

// watch is a state followed by a cursor after it. It is used by one goroutine at
// a time, except Close.
type watch struct {
	cached   *caches.Resource
	resource *kinds.Resource // in the version that is watched
	sel      watchcache.Selection
	asStored bool // objects are returned as they are stored
	// byField says that fields of a custom resource select, as they have been since selects.
	byField bool
	selects kube.ResourceVersion
	// wholeFrom is since when all objects could be read, when the watch was opened.
	wholeFrom kube.ResourceVersion

	initial *watchcache.Snapshot // nil when all of it was returned
	from    string               // the first key of initial that was not returned
	since   kube.ResourceVersion // not 0: delta, the changes after it, replaces initial
	delta   []wire.WatchEvent    // the part that was not returned yet
	batch   []wire.WatchEvent
	cursor  *watchcache.Cursor
	at      kube.ResourceVersion // the last position
}

var _ wire.Watch = (*watch)(nil)

// Next implements wire.Watch.
func (w *watch) Next(ctx context.Context) ([]wire.WatchEvent, error) {
	if w.initial != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := w.interrupted(); err != nil {
			return nil, err
		}
		if w.since != 0 {
			return w.changes(), nil
		}
		return w.state(), nil
	}
	w.batch = nil
	events, err := w.cursor.Next(ctx)
	if err := w.interrupted(); err != nil { // after the read: whatever that has was noted before
		return nil, err
	}
	if w.outdated() {
		return nil, w.expired(w.at)
	}
	return events, err
}

// interrupted returns why the watch cannot show all changes: 500 while a value cannot be read, and
// *kube.ExpiredError when it was so since the watch was opened.
func (w *watch) interrupted() error {
	if err := w.cached.Whole(w.sel.Namespace); err != nil {
		return err
	}
	if from := w.cached.WholeFrom(); from != w.wholeFrom {
		return stored.Unread(w.at, from, kube.ExpiredWatch)
	}
	return nil
}

// outdated reports whether an edit of the definition has changed what the watch selects: see
// caches.Resource.SelectsFrom.
func (w *watch) outdated() bool { return w.byField && w.cached.SelectsFrom() != w.selects }

// expired is the error of a watch that would go on from before such an edit.
func (w *watch) expired(from kube.ResourceVersion) error {
	return &kube.ExpiredError{
		Requested: from, Oldest: w.cached.SelectsFrom(), Reason: kube.ReasonDefinition, Kind: kube.ExpiredWatch,
	}
}

// state returns the next part of the initial state. It walks the tree again from
// where it was, so that a slow reader holds the snapshot and nothing else.
func (w *watch) state() []wire.WatchEvent {
	clear(w.batch)
	w.batch = w.batch[:0]
	bytes := 0
	for o := range w.initial.Scan(w.from, w.sel) {
		if len(w.batch) == maxBatchEvents || bytes >= maxBatchBytes {
			w.from = o.Key().String()
			return w.batch
		}
		o = w.show(o)
		bytes += o.Size()
		w.batch = append(w.batch, wire.WatchEvent{Type: kube.Added, ResourceVersion: o.ResourceVersion(), Object: o})
	}
	w.batch = append(w.batch, wire.WatchEvent{Type: kube.InitialEventsEnd, ResourceVersion: w.initial.RV()})
	w.initial = nil
	return w.batch
}

// show returns an object as the watch does.
func (w *watch) show(o *wire.Object) *wire.Object {
	if w.asStored {
		return o
	}
	if w.sel.Read != nil {
		o = w.sel.Read(o)
	}
	return w.resource.Show(o)
}

// useDelta replaces the initial state by what changed after rv, if history goes back to
// rv and the delta is not larger than the state.
func (w *watch) useDelta(ctx context.Context, rv kube.ResourceVersion) error {
	delta, err := w.cached.Cache.Since(ctx, rv, w.initial, w.sel)
	if _, expired := errors.AsType[*kube.ExpiredError](err); expired || errors.Is(err, watchcache.ErrDeltaTooLarge) {
		return nil
	}
	w.delta, w.since = delta, rv
	return err
}

// changes returns the next part of the delta.
func (w *watch) changes() []wire.WatchEvent {
	n, bytes := 0, 0
	for n < len(w.delta) && n < maxBatchEvents && bytes < maxBatchBytes {
		e := &w.delta[n]
		e.Object = w.show(e.Object)
		bytes += e.Object.Size()
		n++
	}
	w.batch = append(w.batch[:0], w.delta[:n]...)
	clear(w.delta[:n]) // their objects are not held until the end
	if w.delta = w.delta[n:]; len(w.delta) == 0 {
		w.batch = append(w.batch, wire.WatchEvent{Type: kube.InitialEventsEnd, ResourceVersion: w.initial.RV(), Since: w.since})
		w.initial, w.delta = nil, nil
	}
	return w.batch
}

// Position implements wire.Watch.
func (w *watch) Position() kube.ResourceVersion {
	if w.initial != nil {
		return 0
	}
	if at := w.cursor.Position(); !w.outdated() && w.interrupted() == nil {
		w.at = at
	}
	return w.at
}

// Close implements wire.Watch.
func (w *watch) Close() { w.cursor.Close() }
