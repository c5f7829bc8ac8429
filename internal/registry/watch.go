package registry

import (
	"context"
	"errors"

	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// How much of the initial state one call of Next returns at most. A single object may be
// larger than the byte limit.
const (
	maxBatchEvents = 256
	maxBatchBytes  = 1 << 20
)

// Watch opens a WATCH by kube.PlanWatch. With initial events the
// last of them is InitialEventsEnd, whether or not the client asked for the
// bookmark; when that has Since, they are a delta (docs/extensions.md). When the
// resource's definition is deleted, or the version that is watched is no longer
// served, Next returns io.EOF after everything before: the stream ends like by its
// timeout. Errors: those of PlanWatch, 400 for a field that cannot be selected by
// and for a bad shard selector, *kube.ExpiredError,
// *kube.TooLargeResourceVersionError after 3 s.
func (r *Reader) Watch(ctx context.Context, t schema.Target, o kube.ListOptions) (kube.Watch, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, err
	}
	if err := t.Resource.CheckFields(o.Fields); err != nil {
		return nil, err
	}
	plan, err := kube.PlanWatch(o)
	if err != nil {
		return nil, err
	}
	w := &watch{
		cached: cached, resource: t.Resource, sel: selection(t, o),
	}
	if !t.Resource.Converts() && (t.Resource.Conversion != nil || t.Resource.Version != t.Resource.StorageVersion) {
		w.sel.Form = &watchcache.Form{APIVersion: t.Resource.APIVersion(), Convert: t.Resource.Show}
	}
	if w.sel.Shard, err = shardOf(o); err != nil {
		return nil, err
	}
	var after *watchcache.Selection
	if t.Resource.Converts() {
		w.asStored = true
		if w.sel, after = outside(t.Resource, w.sel); after != nil {
			plan.Delta = false // only the converted objects show what has left the selection
		}
	}
	if err := r.open(ctx, w, plan); err != nil {
		return nil, err
	}
	if version := t.Resource.GVR(); t.Resource.Custom && r.live != nil {
		w.cursor.Until(func() bool {
			_, served := r.live.Load().Lookup(version)
			return !served
		})
	}
	if w.asStored {
		return newConverting(ctx, w, r.converter, after), nil
	}
	return w, nil
}

// openAttempts bounds how often a watch that names no resourceVersion begins again
// because the history after its beginning was compacted meanwhile.
const openAttempts = 3

// open gives the watch its initial state and its cursor.
func (r *Reader) open(ctx context.Context, w *watch, plan kube.WatchPlan) error {
	for attempt := 1; ; attempt++ {
		after, err := r.begin(ctx, w, plan)
		if err != nil {
			return err
		}
		w.cursor, err = w.cached.Cache.CursorAfter(ctx, after, w.sel)
		_, expired := errors.AsType[*kube.ExpiredError](err)
		if !expired || plan.Start == kube.WatchAfter || attempt == openAttempts {
			return err
		}
		w.initial, w.delta, w.since = nil, nil, 0
	}
}

// begin gives the watch its initial state, if it has one, and returns the
// resourceVersion that its changes come after.
func (r *Reader) begin(ctx context.Context, w *watch, plan kube.WatchPlan) (after kube.ResourceVersion, err error) {
	cache := w.cached.Cache
	switch plan.Start {
	case kube.WatchInitialConsistent:
		w.initial, err = w.cached.Fresh(ctx)
	case kube.WatchInitialAny:
		w.initial = cache.Snapshot()
	case kube.WatchInitialNotOlderThan:
		w.initial, err = cache.WaitFresh(ctx, plan.RV)
	case kube.WatchFromNow:
		var now *watchcache.Snapshot
		if now, err = w.cached.Fresh(ctx); err == nil {
			return now.RV(), nil
		}
	case kube.WatchFromCache:
		return cache.Snapshot().RV(), nil
	case kube.WatchAfter:
		if r.strict {
			_, err = cache.WaitFresh(ctx, plan.RV)
		}
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
	resource *schema.Resource // in the version that is watched
	sel      watchcache.Selection
	asStored bool // objects are returned as they are stored

	initial *watchcache.Snapshot // nil when all of it was returned
	from    string               // the first key of initial that was not returned
	since   kube.ResourceVersion // not 0: delta, the changes after it, replaces initial
	delta   []kube.WatchEvent    // the part that was not returned yet
	batch   []kube.WatchEvent
	cursor  *watchcache.Cursor
}

var _ kube.Watch = (*watch)(nil)

// Next implements kube.Watch.
func (w *watch) Next(ctx context.Context) ([]kube.WatchEvent, error) {
	if w.initial != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if w.since != 0 {
			return w.changes(), nil
		}
		return w.state(), nil
	}
	w.batch = nil
	return w.cursor.Next(ctx)
}

// state returns the next part of the initial state. It walks the tree again from
// where it was, so that a slow reader holds the snapshot and nothing else.
func (w *watch) state() []kube.WatchEvent {
	clear(w.batch)
	w.batch = w.batch[:0]
	bytes := 0
	for o := range w.initial.Scan(w.from, w.sel) {
		if len(w.batch) == maxBatchEvents || bytes >= maxBatchBytes {
			w.from = o.Key().String()
			return w.batch
		}
		if !w.asStored {
			o = w.resource.Show(o)
		}
		bytes += o.Size()
		w.batch = append(w.batch, kube.WatchEvent{Type: kube.Added, ResourceVersion: o.ResourceVersion(), Object: o})
	}
	w.batch = append(w.batch, kube.WatchEvent{Type: kube.InitialEventsEnd, ResourceVersion: w.initial.RV()})
	w.initial = nil
	return w.batch
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
func (w *watch) changes() []kube.WatchEvent {
	n, bytes := 0, 0
	for n < len(w.delta) && n < maxBatchEvents && bytes < maxBatchBytes {
		e := &w.delta[n]
		if !w.asStored {
			e.Object = w.resource.Show(e.Object)
		}
		bytes += e.Object.Size()
		n++
	}
	w.batch = append(w.batch[:0], w.delta[:n]...)
	clear(w.delta[:n]) // their objects are not held until the end
	if w.delta = w.delta[n:]; len(w.delta) == 0 {
		w.batch = append(w.batch, kube.WatchEvent{Type: kube.InitialEventsEnd, ResourceVersion: w.initial.RV(), Since: w.since})
		w.initial, w.delta = nil, nil
	}
	return w.batch
}

// Position implements kube.Watch.
func (w *watch) Position() kube.ResourceVersion {
	if w.initial != nil {
		return 0
	}
	return w.cursor.Position()
}

// Close implements kube.Watch.
func (w *watch) Close() { w.cursor.Close() }
