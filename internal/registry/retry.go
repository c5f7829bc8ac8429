package registry

import (
	"context"
	"errors"

	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

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

// retry changes one object by d until no other write is faster. It begins with what the cache
// has, which may be behind: an error of d counts only if the most recent state gives it too.
// After a conflict it takes the lock of the key, and while there is a queue for that lock
// every write joins it: each is then done once, in the order of arrival, and a slow one
// is not repeated in vain.
func (r *Registry) retry(ctx context.Context, w write, d decide) (outcome, error) {
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
	if err := w.cached.Readable(key); err != nil {
		return outcome{}, err
	}
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
			if state, err = newer(ctx, w.cached, seen{key, current, err}); err != nil {
				return outcome{}, err
			}
			latest = true
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

// seen is the object of a key, and why it cannot be changed.
type seen struct {
	key     wire.Key
	object  *wire.Object
	refused error
}

// newer returns the most recent state. Its error is the refusal if that state has the same object, and why the
// state cannot be had otherwise: what the cache has may be long past then.
func newer(ctx context.Context, cached *caches.Resource, was seen) (*watchcache.Snapshot, error) {
	s, err := cached.FreshOf(ctx, was.key)
	if err != nil {
		return nil, err
	}
	if o, _ := s.Get(was.key); o == was.object {
		return nil, was.refused
	}
	return s, nil
}

// afterConflict returns a state that has what the write conflicted with.
func (r *Registry) afterConflict(
	ctx context.Context, cached *caches.Resource, c *store.ConflictError,
) (*watchcache.Snapshot, error) {
	if c.Current != nil {
		if err := cached.WaitPublished(ctx, c.Current.ModRevision); err != nil {
			return nil, err
		}
	}
	return cached.FreshOf(ctx, cached.KeyOf(c.Key))
}
