package registry

import (
	"context"
	"errors"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// subject is what a write is about.
type subject struct {
	target schema.Target
	kind   *kind
	dryRun bool
}

// newSubject finds the kind of a target.
func (r *Registry) newSubject(t schema.Target, dryRun []string) (subject, error) {
	k, err := r.kind(t)
	if err != nil {
		return subject{}, err
	}
	return subject{target: t, kind: k, dryRun: len(dryRun) > 0}, nil
}

// decision is what a write does to the object that it found.
type decision struct {
	value  []byte // the new stored form; nil when nothing is written
	remove bool   // the object goes away
	// after is what the caller is shown when the object goes away; nil: what was found.
	after []byte
}

// outcome is what a write has done.
type outcome struct {
	object  *kube.Object // as it is now; the last of it when it was removed
	removed bool
}

// decide looks at the current object, nil if there is none, and says what to do.
// It is called again when the object turns out to be another one by now.
type decide func(current *kube.Object) (decision, error)

// mutate changes one object. It begins with what the cache has, which may be
// behind: an error of decide counts only if the most recent state gives it too.
func (r *Registry) mutate(ctx context.Context, w subject, d decide) (outcome, error) {
	key := keyOf(w.target)
	state, latest := w.kind.cache.Snapshot(), false
	for {
		current, _ := state.Get(key)
		decided, err := d(current)
		if err != nil {
			if latest {
				return outcome{}, err
			}
			if state, latest = r.newer(ctx, w.kind, current, key); !latest {
				return outcome{}, err
			}
			continue
		}
		done, err := r.apply(ctx, w, current, decided)
		conflict, is := errors.AsType[*store.ConflictError](err)
		if !is {
			return done, err
		}
		if state, err = r.afterConflict(ctx, w.kind, conflict); err != nil {
			return outcome{}, err
		}
		latest = true
	}
}

// newer returns the most recent state if another object is there than the one
// that was looked at, and whether it is. When the state cannot be had it is not.
func (r *Registry) newer(ctx context.Context, k *kind, seen *kube.Object, key kube.Key) (s *watchcache.Snapshot, is bool) {
	s, err := r.fresh(ctx, k)
	if err != nil {
		return nil, false
	}
	o, _ := s.Get(key)
	return s, o != seen
}

// afterConflict returns a state that has what the write met.
func (r *Registry) afterConflict(ctx context.Context, k *kind, c *store.ConflictError) (*watchcache.Snapshot, error) {
	if c.Current != nil {
		if err := r.published(ctx, kube.ResourceVersion(c.Current.ModRevision)); err != nil {
			return nil, err
		}
	}
	return r.fresh(ctx, k)
}

// apply does what was decided; *store.ConflictError when the object has changed.
func (r *Registry) apply(ctx context.Context, w subject, current *kube.Object, d decision) (outcome, error) {
	if !d.remove && d.value == nil {
		return outcome{object: current}, nil
	}
	found := int64(current.ResourceVersion())
	key := w.kind.key(current.Key())
	if d.remove {
		last := current
		if d.after != nil {
			var err error
			if last, err = w.kind.object(key, d.after, found); err != nil {
				return outcome{}, kube.Internal(err)
			}
		}
		if !w.dryRun {
			if _, err := r.commit(ctx, store.Txn{Key: key, Delete: true, ExpectedModRevision: found}); err != nil {
				return outcome{}, err
			}
		}
		return outcome{object: last, removed: true}, nil
	}
	if w.dryRun {
		o, err := w.kind.object(key, d.value, found)
		return outcome{object: o}, err
	}
	revision, err := r.commit(ctx, store.Txn{Key: key, Value: d.value, ExpectedModRevision: found})
	if err != nil {
		return outcome{}, err
	}
	o, err := w.kind.written(current.Key(), d.value, revision)
	return outcome{object: o}, err
}

// written returns the object of a write: the cache's, unless that is newer already.
func (k *kind) written(key kube.Key, value []byte, revision int64) (*kube.Object, error) {
	if o, found := k.cache.Snapshot().Get(key); found && int64(o.ResourceVersion()) == revision {
		return o, nil
	}
	o, err := k.object(k.key(key), value, revision)
	if err != nil {
		return nil, kube.Internal(err)
	}
	return o, nil
}

// commit writes and waits until every reader can see it. A failed condition is
// *store.ConflictError; other errors are the client's.
func (r *Registry) commit(ctx context.Context, t store.Txn) (int64, error) {
	done, err := r.store.Commit(ctx, t)
	if err != nil {
		return 0, storeError(err)
	}
	return done.Revision, r.published(ctx, kube.ResourceVersion(done.Revision))
}
