package informer

import (
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gapless-io/gapless/informer/internal/group"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// Index finds objects by a value that is computed from each. It is part of the
// cache's state: whoever sees an object sees it in the index too, under the values
// of that very state, and a handler that is called sees an index at its event's
// state or a newer one. All methods are safe for concurrent use and hold no lock.
type Index[T Object, V comparable] struct {
	informer *Informer[T]
	id       *string // its name; the pointer tells it from others
	values   func(buffer []V, object T) []V
	place    int               // in snapshot.indexed
	fixed    *indexState[T, V] // of an index of one state; nil: the newest
}

// NewIndex adds an index to an informer, also while it runs: then it reads the
// objects that are there first, and returns when it is complete. An object is found
// under each of its values, and under none if there are none.
//
// The function must depend on nothing but the object and must not call the informer;
// the cache waits for it. When it panics, that is an incident (IndexPanicked), and
// the object is left out of this index until its next state. name is for incidents.
// An index lives as long as its informer.
func NewIndex[T Object, V comparable](i *Informer[T], name string, values func(object T) []V) *Index[T, V] {
	return newIndex(i, name, func(buffer []V, object T) []V { return append(buffer, values(object)...) })
}

// NewIndex1 is NewIndex for a function with exactly one value, the zero value
// included.
func NewIndex1[T Object, V comparable](i *Informer[T], name string, value func(object T) V) *Index[T, V] {
	return newIndex(i, name, func(buffer []V, object T) []V { return append(buffer, value(object)) })
}

func newIndex[T Object, V comparable](i *Informer[T], name string, values func([]V, T) []V) *Index[T, V] {
	x := &Index[T, V]{informer: i, id: &name, values: values}
	from := i.Snapshot()
	st := x.build(from)
	i.publishing.Lock()
	defer i.publishing.Unlock()
	now := i.Snapshot()
	now.changes(from, func(c change[T]) bool {
		st.change(x, c)
		return true
	})
	x.place = len(i.indexers)
	i.indexers = append(i.indexers, x.next)
	next := *now.of
	next.indexed = append(slices.Clip(next.indexed), st)
	next.superseded = make(chan struct{})
	i.current.Store(&next)
	close(now.of.superseded)
	return x
}

// Get yields the objects with value v, by namespace and name, as they are in one
// state. They are shared and must not be modified.
func (x *Index[T, V]) Get(v V) iter.Seq2[Key, T] {
	st := x.state()
	return func(yield func(Key, T) bool) {
		for object := range st.set.Get(v) {
			if !yield(state.KeyOf(object), object.Get()) {
				return
			}
		}
	}
}

// Len is how many objects have value v. It takes no longer for many than for few.
func (x *Index[T, V]) Len(v V) int { return x.state().set.Len(v) }

// Values yields each value that an object has, in no order.
func (x *Index[T, V]) Values() iter.Seq[V] { return x.state().set.Values() }

// At is the index of one state, unchanging like it, to read several things that
// belong together. It costs nothing, but if the snapshot is older than the index or
// another informer's: then all of it is read.
func (x *Index[T, V]) At(s Snapshot[T]) *Index[T, V] {
	at := *x
	at.fixed = nil
	if s.of != nil && x.place < len(s.of.indexed) {
		// Another informer has an index of another function here.
		if st, is := s.of.indexed[x.place].(*indexState[T, V]); is && st.of == x.id {
			at.fixed = st
		}
	}
	if at.fixed == nil {
		at.fixed = x.build(s)
	}
	return &at
}

func (x *Index[T, V]) state() *indexState[T, V] {
	if x.fixed != nil {
		return x.fixed
	}
	st, is := x.informer.current.Load().indexed[x.place].(*indexState[T, V])
	if !is {
		panic("informer: another index is in this place")
	}
	return st
}

// build indexes a whole state.
func (x *Index[T, V]) build(s Snapshot[T]) *indexState[T, V] {
	st := &indexState[T, V]{of: x.id, set: group.New[held[T], V](func(a, b held[T]) int { return state.Compare(state.KeyOf(a), state.KeyOf(b)) })}
	s.state().tree.Scan(func(e state.Entry[held[T]]) bool {
		st.change(x, change[T]{Key: e.Key, New: e.Object})
		return true
	})
	return st
}

// next is the index after changes. It belongs to who publishes.
func (x *Index[T, V]) next(indexed any, changes []change[T]) any {
	old, is := indexed.(*indexState[T, V])
	if !is {
		panic("informer: another index is in this place")
	}
	st := &indexState[T, V]{of: old.of, set: old.set.Copy()}
	for _, c := range changes {
		st.change(x, c)
	}
	return st
}

// compute returns the object's values, each once, or why there are none.
func (x *Index[T, V]) compute(buffer []V, object T) (all []V, err error) {
	defer func() {
		if v := recover(); v != nil {
			all, err = nil, &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	all = buffer
	var room [4]V
	for _, v := range x.values(room[:0], object) {
		// What is not equal to itself, a NaN, could never be found again. An interface
		// that cannot be compared panics here, and not later when it is hashed.
		if v == v && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all, nil
}

func (x *Index[T, V]) panicked(key Key, rv string, err error) {
	x.informer.report(Incident{
		Kind: IndexPanicked, At: time.Now(), Key: key, RV: rv,
		Err: fmt.Errorf("index %s: %w", *x.id, err),
	})
}

// indexState is an index as it is in one snapshot; then it never changes.
type indexState[T Object, V comparable] struct {
	of  *string // the id of the index
	set *group.Set[held[T], V]
}

// change takes over one object's way from one state to the next.
func (s *indexState[T, V]) change(x *Index[T, V], c change[T]) {
	var none held[T]
	var before, after [4]V
	var was, is []V
	if c.Old != none {
		was, _ = x.compute(before[:0], c.Old.Get()) // if it panics, that was reported when it came
	}
	if c.New != none {
		var err error
		if is, err = x.compute(after[:0], c.New.Get()); err != nil {
			x.panicked(c.Key, c.New.GetResourceVersion(), err)
		}
	}
	for _, v := range was {
		if !slices.Contains(is, v) {
			s.set.Remove(v, c.Old)
		}
	}
	for _, v := range is {
		s.set.Put(v, c.New)
	}
}
