package registry

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/admit"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/lifecycle"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// write is one call of a verb that changes an object.
type write struct {
	target kinds.Target
	cached *caches.Resource // what the target is stored in
	dryRun bool
	track  strategy.Track // who manages which fields
	// review asks admission plugins; options are those of the client's operation.
	review  *admit.Review
	options runtime.Object
	waits   bool // also without the review
	// order is that of definitions; nil for other resources.
	order *lifecycle.Order
}

// asked returns the write with the review of a client's operation.
func (r *Registry) asked(w write, op admission.Operation, o runtime.Object) write {
	w.options = o
	w.review = admit.Begin(r.plugin, admit.Request{Target: w.target, Operation: op, Options: o, DryRun: w.dryRun})
	return w
}

// mayWait reports whether a write may wait for a webhook. It holds nothing meanwhile that
// another write needs.
func (w write) mayWait() bool { return w.waits || w.review.Asks() || mayCall(w.target.Resource) }

// newWrite finds what a target is stored in. Errors: those of caches.Set.Of.
func (r *Registry) newWrite(t kinds.Target, dryRun []string) (write, error) {
	cached, err := r.caches.Of(t)
	if err != nil {
		return write{}, err
	}
	return write{target: t, cached: cached, dryRun: len(dryRun) > 0, track: tracked, order: r.definitions.Order(t.Resource)}, nil
}

// decision is what a write does to the object that it found.
type decision struct {
	value  []byte // the new stored form; nil when nothing is written
	remove bool   // the object is removed
	// after is the form that the answer shows when the object is removed; nil: the object
	// that was found.
	after []byte
}

// outcome is what a write has done.
type outcome struct {
	object  *wire.Object // the new state; the last state when it was removed
	removed bool
}

// decide looks at the current object, nil if there is none, and says what to do.
// It is called again when the object turns out to be another one by now.
type decide func(current *wire.Object) (decision, error)

// maxConflicts is how often a write that holds the lock of its key may conflict before
// it is 409: apiserver handlers/patch.go MaxRetryWhenPatchConflicts. It can only conflict
// with writes that were under way when it took the lock.
const maxConflicts = 5

// maxUnordered is maxConflicts for a write that may wait for a webhook: it takes no lock, so
// that it does not make others wait, and conflicts with all of them.
const maxUnordered = 100

// mutate changes one object. It begins with what the cache has, which may be
// behind: an error of decide counts only if the most recent state gives it too.
// After a conflict it takes the lock of the key, and while there is a queue for that lock
// every write joins it: each is then done once, in the order of arrival, and a slow one
// is not repeated in vain.
func (r *Registry) mutate(ctx context.Context, w write, d decide) (outcome, error) {
	key := w.target.Key()
	storeKey := w.cached.Key(key)
	var unlock func()
	ordered, most := !w.mayWait(), maxConflicts
	if !ordered {
		most = maxUnordered
	} else {
		var err error
		if unlock, err = r.conflicts.Join(ctx, storeKey); err != nil {
			return outcome{}, err
		}
	}
	defer func() {
		if unlock != nil {
			unlock()
		}
	}()
	state, latest := w.cached.Cache.Snapshot(), false
	for conflicts := 0; ; {
		if err := context.Cause(ctx); err != nil {
			return outcome{}, err
		}
		current, _ := state.Get(key)
		decided, err := d(current)
		if err != nil {
			if latest {
				return outcome{}, err
			}
			if state, latest = newer(ctx, w.cached, current, key); !latest {
				return outcome{}, err
			}
			continue
		}
		done, err := r.commit(ctx, w, current, decided)
		conflict, is := errors.AsType[*store.ConflictError](err)
		if !is {
			return done, err
		}
		if conflicts++; conflicts > most {
			return outcome{}, wire.Conflict(w.target.Resource.GR(), w.target.Name, modified)
		}
		if unlock == nil && ordered {
			if unlock, err = r.conflicts.Lock(ctx, storeKey); err != nil {
				return outcome{}, err
			}
		}
		if state, err = r.afterConflict(ctx, w.cached, conflict); err != nil {
			return outcome{}, err
		}
		latest = true
	}
}

// newer returns the most recent state, and whether it holds another object than seen
// for a key. When the state cannot be had it does not.
func newer(ctx context.Context, cached *caches.Resource, seen *wire.Object, key wire.Key) (s *watchcache.Snapshot, is bool) {
	s, err := cached.Fresh(ctx)
	if err != nil {
		return nil, false
	}
	o, _ := s.Get(key)
	return s, o != seen
}

// afterConflict returns a state that has what the write conflicted with.
func (r *Registry) afterConflict(ctx context.Context, cached *caches.Resource, c *store.ConflictError) (*watchcache.Snapshot, error) {
	if c.Current != nil {
		if err := r.caches.WaitPublished(ctx, kube.ResourceVersion(c.Current.ModRevision)); err != nil {
			return nil, err
		}
	}
	return cached.Fresh(ctx)
}

// commit does what was decided on the current object, and waits until every reader can
// see it. Errors: *store.ConflictError when the object has changed meanwhile; others are
// for the client.
func (r *Registry) commit(ctx context.Context, w write, current *wire.Object, d decision) (outcome, error) {
	if !d.remove && d.value == nil {
		rewrite, err := r.mustRewrite(ctx, w, current)
		if err != nil || !rewrite {
			return outcome{object: current}, err
		}
		d.value = current.Value()
	}
	found := int64(current.ResourceVersion())
	txn := store.Txn{Key: w.cached.Key(current.Key()), Value: d.value, Delete: d.remove, ExpectedModRevision: found}
	last := current
	if d.remove && d.after != nil {
		var err error
		if last, err = w.cached.Object(txn.Key, d.after, found); err != nil {
			return outcome{}, wire.Internal(err)
		}
	}
	if w.dryRun {
		if d.remove {
			return outcome{object: last, removed: true}, nil
		}
		o, err := w.cached.Object(txn.Key, d.value, found)
		return outcome{object: o}, err
	}
	done, err := r.store.Commit(ctx, txn)
	if err != nil {
		return outcome{}, stored.Failure(err)
	}
	if err := r.caches.WaitPublished(ctx, kube.ResourceVersion(done.Revision)); err != nil {
		return outcome{}, err
	}
	if d.remove {
		if d.after == nil && w.target.Resource.ReturnDeleted {
			// A deletion is answered under its own version (etcd3 store.conditionalDelete).
			last = last.WithResourceVersion(kube.ResourceVersion(done.Revision))
		}
		return outcome{object: last, removed: true}, nil
	}
	o, err := written(w.cached, current.Key(), d.value, done.Revision)
	return outcome{object: o}, err
}

// written returns the object of a write: the cache's, unless that is newer already.
func written(cached *caches.Resource, key wire.Key, value []byte, revision int64) (*wire.Object, error) {
	if o, found := cached.Cache.Snapshot().Get(key); found && int64(o.ResourceVersion()) == revision {
		return o, nil
	}
	o, err := cached.Object(cached.Key(key), value, revision)
	if err != nil {
		return nil, wire.Internal(err)
	}
	return o, nil
}

// mustRewrite reports whether a write that changes nothing is to be written all the same:
// upstream's etcd3 store does it for values that are encrypted with an old key.
func (r *Registry) mustRewrite(ctx context.Context, w write, current *wire.Object) (bool, error) {
	if r.stale == nil || w.dryRun || current == nil {
		return false, nil
	}
	stale, err := r.stale(ctx, w.cached.Key(current.Key()), int64(current.ResourceVersion()))
	if err != nil {
		return false, stored.Failure(err)
	}
	return stale, nil
}
