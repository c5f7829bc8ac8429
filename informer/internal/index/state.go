package index

import (
	"runtime/debug"
	"slices"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// Function computes the values that objects are found under. Its address tells one
// index from another.
type Function[T handle.Object, V comparable] struct {
	// Values appends an object's values to buffer. It depends on the object only.
	Values func(buffer []V, object T) []V
	// Panicked is called when Values panicked for an object. The object is in no index of
	// the function then.
	Panicked func(key handle.Key, rv string, err *incident.PanicError)
}

// State is an index of one state of a cache. It does not change when it is shared;
// Next makes the one that follows.
type State[T handle.Object, V comparable] struct {
	of  *Function[T, V]
	set *Set[handle.Handle[T], V]
}

// Build indexes all objects of a tree.
func (f *Function[T, V]) Build(tree state.Tree[T]) *State[T, V] {
	s := &State[T, V]{of: f, set: New[handle.Handle[T], V](func(a, b handle.Handle[T]) int {
		return state.Compare(handle.KeyOf(a), handle.KeyOf(b))
	})}
	tree.Scan(func(e state.Entry[T]) bool {
		s.Apply(state.Change[T]{Key: e.Key, New: e.Object})
		return true
	})
	return s
}

// Of reports whether the index is one of f.
func (s *State[T, V]) Of(f *Function[T, V]) bool { return s.of == f }

// Set returns the objects by value.
func (s *State[T, V]) Set() *Set[handle.Handle[T], V] { return s.set }

// Next returns the index after changes.
func (s *State[T, V]) Next(changes []state.Change[T]) *State[T, V] {
	next := &State[T, V]{of: s.of, set: s.set.Copy()}
	for _, c := range changes {
		next.Apply(c)
	}
	return next
}

// Apply makes one change, before the index is shared.
func (s *State[T, V]) Apply(c state.Change[T]) {
	var none handle.Handle[T]
	var before, after [4]V
	var was, is []V
	if c.Old != none {
		was, _ = s.of.compute(before[:0], c.Old.Get()) // a panic was reported when this state was new
	}
	if c.New != none {
		var err *incident.PanicError
		if is, err = s.of.compute(after[:0], c.New.Get()); err != nil {
			s.of.Panicked(c.Key, c.New.GetResourceVersion(), err)
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

// compute returns the object's values, each once, or with what the function panicked.
func (f *Function[T, V]) compute(buffer []V, object T) (all []V, err *incident.PanicError) {
	defer func() {
		if v := recover(); v != nil {
			all, err = nil, &incident.PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	all = buffer
	var room [4]V
	for _, v := range f.Values(room[:0], object) {
		// A value that is not equal to itself, a NaN, could never be found again. An
		// interface that cannot be compared panics here, and not later when it is hashed.
		if v == v && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all, nil
}
