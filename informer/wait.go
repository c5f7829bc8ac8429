package informer

import (
	"context"
	"errors"
	"fmt"

	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/kube"
)

// ErrWentBack says that the server's history went back while WaitRevision waited for a
// resourceVersion of the earlier history, which has no meaning any more.
var ErrWentBack = errors.New("the server's history went back")

// WaitRevision blocks until the cache contains all changes up to resourceVersion rv.
// After a write, with the version that it returned, a program reads its own write, and
// Registration.Pending counts the write until it is handled. It returns an error at once
// if rv is not a version ("" and "0" are not), ErrWentBack if the server's history goes
// back meanwhile, and otherwise, when ctx ends, what went wrong. A version of another
// server cannot be detected.
//
// For your own deletion use Until: the response to it has no version, or that of the last
// state before.
//
// If the write is not in the informer's collection, because a selector or Namespaces
// excludes it or because it changed nothing, the cache reaches rv with the next change of
// the collection or the next bookmark: within a minute, if the server sends bookmarks. An
// informer of several namespaces waits for all of them, unless it has the write already.
func (i *Informer[T]) WaitRevision(ctx context.Context, rv string) error {
	if _, err := kube.CompareResourceVersion(rv, rv); err != nil {
		return fmt.Errorf("wait for informer of %s to reach resourceVersion %q (a deletion returns none; Until waits for it): %w",
			i.source.name, rv, err)
	}
	begin, before := i.cache.Current(), cache.Empty[T]()
	for now := begin; ; now = i.cache.Current() {
		if now.Epoch != begin.Epoch {
			return fmt.Errorf("wait for informer of %s to reach resourceVersion %s: it is at %s: %w",
				i.source.name, rv, now.RV, ErrWentBack)
		}
		if now.RV != "" {
			included, err := now.Includes(rv, before)
			if err != nil {
				return fmt.Errorf("wait for informer of %s to reach resourceVersion %s: %w", i.source.name, rv, err)
			}
			if included {
				i.cache.Delivered()
				return nil
			}
			before = now
		}
		if err := i.wait(ctx, now); err != nil {
			return fmt.Errorf(
				"informer of %s is at resourceVersion %q and not at %s, which comes with the next change or bookmark of its "+
					"collection if the write was in another one, %w",
				i.source.name, now.RV, rv, err)
		}
	}
}

// Until blocks until condition holds for the object with key, and returns the object.
// found is false, and object the zero value, if there is none. The condition is called
// with the state at the first sync or now, and again whenever the object's state is
// another one; states that follow each other quickly can be skipped. If ctx ends before,
// the error says what went wrong.
func (i *Informer[T]) Until(ctx context.Context, key Key, condition func(object T, found bool) bool) (T, error) {
	var last T
	asked := false
	for now := i.cache.Current(); ; now = i.cache.Current() {
		if now.RV != "" {
			object, found := now.Get(key)
			if (!asked || object != last) && condition(object, found) {
				i.cache.Delivered()
				return object, nil
			}
			last, asked = object, true
		}
		if err := i.wait(ctx, now); err != nil {
			var none T
			return none, fmt.Errorf("wait for %s in informer of %s: %w", key, i.source.name, err)
		}
	}
}

// wait blocks until there is a newer state than now. If ctx ends before, or the informer
// gives up, the error says what the informer was doing.
func (i *Informer[T]) wait(ctx context.Context, now *cache.Snapshot[T]) error {
	failed, err := i.unable()
	if err != nil {
		return err
	}
	select {
	case <-now.Superseded():
		return nil
	case <-failed.done:
		return failed.err
	case <-ctx.Done():
		return fmt.Errorf("it is %s: %w", i.doing(), context.Cause(ctx))
	}
}
