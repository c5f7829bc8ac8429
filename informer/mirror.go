package informer

import (
	"iter"

	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/informer/internal/handle"
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
	// Rewritten says that the state is of another history of the server than the one before:
	// the server was restored from a backup, or replaced. Then Whole is set.
	Rewritten bool

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

// Step is one change of an Update, as the server reported it.
type Step[T Object] struct {
	Key Key
	// New is the state after the change; the zero value if the object was deleted.
	New T
	// Last is the last known state of an object that was deleted, as a watch reported it
	// with the deletion; otherwise the zero value.
	Last T
	// RV is the resourceVersion of the change.
	RV string
	// Inferred says that a deletion was concluded, from a state without the object or from
	// another UID: it happened at or before RV.
	Inferred bool
}

// Steps yields the changes of the step as Changes does, with what is known of each. For an
// update by a watch these are the events, in the server's order: none is merged with another.
func (u Update[T]) Steps() iter.Seq[Step[T]] {
	return func(yield func(Step[T]) bool) {
		for _, c := range u.changes {
			if !yield(Step[T]{Key: c.Key, New: c.New.Get(), Last: c.Last.Get(), RV: c.RV, Inferred: c.Inferred}) {
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
// be quick, must not panic and must not add an index. An informer has one mirror, which is set before Run.
func (i *Informer[T]) Mirror(f func(Update[T])) {
	i.cache.Mirror(func(u cache.Update[T]) {
		f(Update[T]{RV: u.RV, Whole: u.Whole, Rewritten: u.Rewritten, changes: u.Changes, tree: u.Tree})
	})
}

// Restored is a state that another informer of the same source had.
type Restored[T Object] struct {
	Objects []T
	// RV is the resourceVersion up to which it is complete.
	RV string
	// Incomplete says that the objects are of no one state: Run reads the state again.
	Incomplete bool
}

// Restore makes the cache a state that another informer of the same source had, in an earlier
// process perhaps: Run watches from its resourceVersion, and lists only if the server no longer
// has the history since then. The mirror gets the state during the call. It is called before Run,
// once, and not together with Persist. The server's history is checked as after an outage.
func (i *Informer[T]) Restore(r Restored[T]) {
	objects := make([]handle.Handle[T], len(r.Objects))
	for n, object := range r.Objects {
		objects[n] = handle.Of(object)
	}
	i.cache.Restore(objects, r.RV, r.Incomplete)
}
