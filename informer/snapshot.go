package informer

import (
	"iter"

	"github.com/gapless-io/gapless/informer/internal/ref"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// held is how the cache holds an object.
type held[T Object] = ref.Ref[T]

// snapshot is one state of the cache. Nothing of it changes, but that superseded
// is closed.
type snapshot[T Object] struct {
	tree state.Tree[held[T]]
	rv   string
	// positions are the resource versions of the informer's parts, of which rv is the
	// least; nil if there is one part.
	positions []string
	// epoch counts how often rv went back: resource versions of different epochs say
	// nothing about each other.
	epoch int
	// indexed are the indices of this state, each a *indexState[T, V], in the order
	// in which they were added.
	indexed []any
	// superseded is closed when there is a newer state. One that stands for no state
	// of an informer has none.
	superseded chan struct{}
}

func newSnapshot[T Object]() *snapshot[T] {
	return &snapshot[T]{tree: state.NewTree[held[T]](), superseded: make(chan struct{})}
}

func (s *snapshot[T]) get(k Key) (T, bool) {
	object, found := s.tree.Of(k)
	return object.Get(), found
}

// all yields the objects by namespace and name.
func (s *snapshot[T]) all() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s.tree.Scan(func(e state.Entry[held[T]]) bool { return yield(e.Key, e.Object.Get()) })
	}
}

// in yields the objects of one namespace by name.
func (s *snapshot[T]) in(namespace string) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s.tree.In(namespace, func(e state.Entry[held[T]]) bool { return yield(e.Key, e.Object.Get()) })
	}
}

// Snapshot is one state of an informer's cache, whole and unchanging: however long it
// is read, all that it says was true together, at RV. Taking one costs nothing;
// while it is held, the objects in it stay in memory. The zero value is empty.
//
// An informer of several namespaces reads each by itself: RV is the oldest of their
// versions, and some of them can be ahead of it.
type Snapshot[T Object] struct{ of *snapshot[T] }

// state is what s stands for.
func (s Snapshot[T]) state() *snapshot[T] {
	if s.of == nil {
		return &snapshot[T]{tree: state.NewTree[held[T]]()}
	}
	return s.of
}

// RV is the resource version of this state; "" if it is from before the first sync.
func (s Snapshot[T]) RV() string { return s.state().rv }

// Len is how many objects there are.
func (s Snapshot[T]) Len() int { return s.state().tree.Len() }

// Get returns an object of this state. It is shared and must not be modified.
func (s Snapshot[T]) Get(k Key) (object T, found bool) { return s.state().get(k) }

// All yields the objects by namespace and name. They are shared and must not be
// modified.
func (s Snapshot[T]) All() iter.Seq2[Key, T] { return s.state().all() }

// In yields the objects of one namespace by name, without looking at others. They
// are shared and must not be modified.
func (s Snapshot[T]) In(namespace string) iter.Seq2[Key, T] { return s.state().in(namespace) }

// Snapshot returns the state that the cache is in now.
func (i *Informer[T]) Snapshot() Snapshot[T] { return Snapshot[T]{i.current.Load()} }

// In yields the objects of one namespace by name, as they are in one state, without
// looking at others. They are shared and must not be modified. It holds no lock.
func (i *Informer[T]) In(namespace string) iter.Seq2[Key, T] { return i.current.Load().in(namespace) }
