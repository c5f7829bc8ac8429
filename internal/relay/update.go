package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// update records what upstream reported, and then shows it to readers.
func (c *collection) update(ctx context.Context, u informer.Update[*item]) error {
	rv, err := kube.ParseResourceVersion(u.RV)
	if err != nil || rv == 0 {
		return &unmirrored{fmt.Errorf("upstream's resourceVersion %q is not a positive decimal number", u.RV)}
	}
	if !u.Whole {
		err := c.follow(ctx, u, rv)
		if errors.Is(err, mirror.ErrOrder) {
			return &unmirrored{err}
		}
		return err
	}
	h := c.writing
	first := h.log.Reached() == 0
	if !first && (u.Rewritten || rv < h.log.Reached() || c.rewrites(u, h.log.Reached())) {
		return c.rewrite(ctx, u, rv)
	}
	err = c.replace(ctx, u, rv)
	if errors.Is(err, mirror.ErrOrder) { // another state at the same resourceVersion
		return c.rewrite(ctx, u, rv)
	}
	return err
}

// rewrites reports whether a state cannot follow from the recorded one: it has an object in
// another version that is not newer than what was recorded.
func (c *collection) rewrites(u informer.Update[*item], reached kube.ResourceVersion) bool {
	for step := range u.Steps() {
		if step.New != nil && step.New.object.ResourceVersion() <= reached {
			return true
		}
	}
	return false
}

// follow records the events of a watch.
func (c *collection) follow(ctx context.Context, u informer.Update[*item], through kube.ResourceVersion) error {
	h := c.writing
	if u.Changed() == 0 {
		h.log.Progress(through)
		return nil
	}
	changes := make([]mirror.Change, 0, u.Changed())
	objects := make([]*wire.Object, 0, u.Changed())
	for step := range u.Steps() {
		rv, err := kube.ParseResourceVersion(step.RV)
		if err != nil {
			return &unmirrored{err}
		}
		change := mirror.Change{Key: wire.Key{Namespace: step.Key.Namespace, Name: step.Key.Name}, RV: rv}
		var object *wire.Object
		if step.New != nil {
			object = step.New.object
			change.Object = object.JSON()
		}
		changes, objects = append(changes, change), append(objects, object)
	}
	positions, err := h.log.Append(ctx, changes, through)
	if err != nil {
		return err
	}
	entries := make([]*watchcache.Entry, len(changes))
	before, held := h.cached.Cache.Snapshot(), map[wire.Key]*wire.Object{}
	for i, change := range changes {
		previous, known := held[change.Key]
		if !known {
			previous, _ = before.Get(change.Key)
		}
		at := kube.ResourceVersion(positions[i]) //nolint:gosec // positions are not negative
		if change.Object == nil {
			entries[i] = watchcache.NewMirroredDeletion(at, change.RV, previous)
		} else {
			entries[i] = watchcache.NewEntry(at, objects[i], previous)
		}
		held[change.Key] = objects[i] // nil after a deletion
	}
	h.append(entries, positions[len(positions)-1])
	return nil
}

// append shows changes to readers.
func (h *history) append(entries []*watchcache.Entry, through int64) {
	h.cached.Cache.Append(entries...)
	h.clock.Publish(kube.ResourceVersion(through)) //nolint:gosec // positions are not negative
}

// replace records the difference to a state that was read as a whole.
func (c *collection) replace(ctx context.Context, u informer.Update[*item], rv kube.ResourceVersion) error {
	h := c.writing
	var deleted []wire.Key
	var changed []*wire.Object
	for step := range u.Steps() {
		if step.New == nil {
			deleted = append(deleted, wire.Key{Namespace: step.Key.Namespace, Name: step.Key.Name})
		} else {
			changed = append(changed, step.New.object)
		}
	}
	slices.SortStableFunc(changed, func(a, b *wire.Object) int { return cmp.Compare(a.ResourceVersion(), b.ResourceVersion()) })
	changes := make([]mirror.Change, len(changed))
	for i, o := range changed {
		changes[i] = mirror.Change{Key: o.Key(), RV: o.ResourceVersion(), Object: o.JSON()}
	}
	done, err := h.log.Replace(ctx, deleted, changes, rv)
	if err != nil {
		return err
	}
	if c.current.Load() != h {
		// Nobody has seen an earlier state: no reader needs the changes.
		objects := make([]*wire.Object, 0, u.Len())
		for _, o := range u.All() {
			objects = append(objects, o.object)
		}
		h.cached.Cache.Load(objects, kube.ResourceVersion(done.After)) //nolint:gosec // positions are not negative
		h.clock.Publish(kube.ResourceVersion(done.After))              //nolint:gosec // as above
		c.show(h)
		return nil
	}
	before := h.cached.Cache.Snapshot()
	gone := map[wire.Key]bool{}
	entries := make([]*watchcache.Entry, 0, len(done.Changes))
	for i, key := range deleted {
		previous, _ := before.Get(key)
		at := kube.ResourceVersion(done.Changes[i]) //nolint:gosec // positions are not negative
		entries = append(entries, watchcache.NewMirroredDeletion(at, done.Deleted, previous))
		gone[key] = true
	}
	for i, o := range changed {
		var previous *wire.Object
		if !gone[o.Key()] {
			previous, _ = before.Get(o.Key())
		}
		at := kube.ResourceVersion(done.Changes[len(deleted)+i]) //nolint:gosec // positions are not negative
		entries = append(entries, watchcache.NewEntry(at, o, previous))
	}
	h.append(entries, done.After)
	return nil
}

// rewrite begins a new history with a state of upstream that does not follow from what was
// recorded: readers from before get 410.
func (c *collection) rewrite(ctx context.Context, u informer.Update[*item], rv kube.ResourceVersion) error {
	c.logger.WarnContext(ctx, "upstream's history is another one: readers must list again")
	c.relay.metrics.rewrites.WithLabelValues(c.name).Inc()
	next, err := c.relay.mirror.Rewrite(ctx, c.writing.log)
	if err != nil {
		return err
	}
	h := c.historyOf(next)
	changes := make([]mirror.Change, 0, u.Len())
	objects := make([]*wire.Object, 0, u.Len())
	for _, o := range u.All() {
		changes = append(changes, mirror.Change{Key: o.object.Key(), RV: o.object.ResourceVersion(), Object: o.object.JSON()})
		objects = append(objects, o.object)
	}
	done, err := next.Replace(ctx, nil, changes, rv)
	if err != nil {
		c.relay.mirror.Release(next) // whoever mirrors the resource again opens it
		if errors.Is(err, mirror.ErrOrder) {
			return &unmirrored{err}
		}
		return err
	}
	h.cached.Cache.Load(objects, kube.ResourceVersion(done.After)) //nolint:gosec // positions are not negative
	h.clock.Publish(kube.ResourceVersion(done.After))              //nolint:gosec // as above
	c.writing = h
	c.show(h)
	c.relay.endPassed(c.resource)
	return nil
}
