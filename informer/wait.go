package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gapless-io/gapless/informer/internal/course"
)

// ErrWentBack says that the server's history went back while somebody waited for a
// resource version of the earlier one, which therefore means nothing any more.
var ErrWentBack = errors.New("the server's history went back")

// WaitRevision blocks until the cache holds everything up to resource version rv:
// after a write, with the version that it returned, one reads one's own write, and
// Registration.Pending counts it until it is handled. It
// returns at once if rv is no version to wait for ("" and "0" are not), with
// ErrWentBack when the server's history goes back meanwhile, and otherwise, when ctx
// ends, with what stood in the way. A version of another server is an ordinary
// number; nobody can tell.
//
// If the write is not in the informer's collection, because a selector leaves it out
// or it changed nothing, the cache gets there with the next change of the
// collection or with the next bookmark: within a minute, if the server sends them. An
// informer of several namespaces waits for all of them, unless it finds the write itself.
func (i *Informer[T]) WaitRevision(ctx context.Context, rv string) error {
	if _, err := resourceversion.CompareResourceVersion(rv, rv); err != nil {
		return fmt.Errorf("wait for informer of %s to reach resourceVersion %q: %w", i.source.name, rv, err)
	}
	begin := i.current.Load()
	var before Snapshot[T]
	for now := begin; ; now = i.current.Load() {
		if now.epoch != begin.epoch {
			return fmt.Errorf("wait for informer of %s to reach resourceVersion %s: it is at %s: %w", i.source.name, rv, now.rv, ErrWentBack)
		}
		if now.rv != "" {
			order, err := resourceversion.CompareResourceVersion(now.rv, rv)
			if err != nil {
				return fmt.Errorf("wait for informer of %s to reach resourceVersion %s: %w", i.source.name, rv, err)
			}
			if order >= 0 || now.wrote(before, rv) {
				i.told()
				return nil
			}
			before = Snapshot[T]{now}
		}
		if err := i.wait(ctx, now); err != nil {
			return fmt.Errorf("informer of %s is at resourceVersion %q and not at %s, %w", i.source.name, now.rv, rv, err)
		}
	}
}

// wrote says whether s, of several namespaces, shows that the write with the resource
// version rv is in it, though some of them have not come that far. before is a state
// that does not.
func (s *snapshot[T]) wrote(before Snapshot[T], rv string) bool {
	if s.positions == nil {
		return false
	}
	found := slices.Contains(s.positions, rv)
	if !found {
		Snapshot[T]{s}.changes(before, func(c change[T]) bool {
			found = found || c.RV == rv && !c.Inferred
			return !found
		})
	}
	return found
}

// Until blocks until the object under key, or that there is none (found false), is
// as it should be, and returns it: the zero value if there is none. The condition is
// asked for the state at the first sync or now, and again whenever the object's
// state is another one; what comes and goes in quick succession it may not see.
// When ctx ends before, the error says what stood in the way.
func (i *Informer[T]) Until(ctx context.Context, key Key, condition func(object T, found bool) bool) (T, error) {
	var last T
	asked := false
	for now := i.current.Load(); ; now = i.current.Load() {
		if now.rv != "" {
			object, found := now.get(key)
			if (!asked || object != last) && condition(object, found) {
				i.told()
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

// told blocks until the handlers' queues have what is in the state that can be seen: it
// can be seen a moment before, so that a handler that is called can see it.
func (i *Informer[T]) told() {
	i.mu.Lock()
	defer i.mu.Unlock()
}

// wait blocks until there is a newer state than now, or until ctx ended, and then
// says what the informer was doing.
func (i *Informer[T]) wait(ctx context.Context, now *snapshot[T]) error {
	if i.source.err != nil {
		return i.source.err
	}
	select {
	case <-now.superseded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it is %s: %w", i.trouble(), context.Cause(ctx))
	}
}

// trouble says what the informer is doing, and what went wrong last, for errors.
func (i *Informer[T]) trouble() string {
	s := i.Status()
	switch {
	case s.Last != nil:
		return s.State + ", last incident: " + s.Last.String()
	case s.State == course.Idle.String():
		return s.State + ", Run was not called"
	}
	return s.State + ", no trouble so far"
}
