package informer

import (
	"iter"

	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// Update is the step of the cache from one state to the next, as a mirror gets it. It is
// valid only during the call.
type Update[T Object] struct {
	// RV is the resourceVersion of the state after the step.
	RV string
	// Whole says that the whole state was read: objects that Changes does not yield were
	// compared and have not changed.
	Whole bool

	changes []state.Change[T]
	tree    state.Tree[T]
}

// Changes yields the changes of the step, in order: the new states of objects, and the
// zero value for an object that was deleted. Another UID under the same name is both.
func (u Update[T]) Changes() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		for _, c := range u.changes {
			if !yield(c.Key, c.New.Get()) {
				return
			}
		}
	}
}

// Changed is how many pairs Changes yields.
func (u Update[T]) Changed() int { return len(u.changes) }

// All yields the objects of the state after the step, by namespace and name.
func (u Update[T]) All() iter.Seq2[Key, T] {
	return (&cache.Snapshot[T]{Tree: u.tree}).All()
}

// Len is how many objects there are after the step.
func (u Update[T]) Len() int { return u.tree.Len() }

// Mirror calls f with each step of the cache, to keep a copy of the cache in another
// form. f is called before any handler: a handler that is called sees a copy at its
// event's state or a newer one. The goroutine of Run calls f and waits for it, so f must
// be quick and must not panic. An informer has one mirror, which is set before Run.
func (i *Informer[T]) Mirror(f func(Update[T])) {
	i.cache.Mirror(func(u cache.Update[T]) { f(Update[T]{RV: u.RV, Whole: u.Whole, changes: u.Changes, tree: u.Tree}) })
}
