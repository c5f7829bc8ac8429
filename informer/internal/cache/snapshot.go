package cache

import (
	"iter"
	"slices"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/kube"
)

// Snapshot is one state of the cache. Nothing in it changes; only superseded is closed.
type Snapshot[T handle.Object] struct {
	Tree state.Tree[T]
	// RV is the resource version of the state; "" before the first sync.
	RV string
	// Epoch counts how often RV went back. Resource versions of different epochs are not
	// comparable.
	Epoch int

	// positions are the resource versions of the namespace streams; RV is the oldest of
	// them. nil if there is one stream.
	positions []string
	// indices are the indices of this state, each an *index.State, in the order in which
	// they were added.
	indices []any
	// superseded is closed when there is a newer state; nil for Empty.
	superseded chan struct{}
}

// Empty returns a snapshot without objects that is a state of no cache.
func Empty[T handle.Object]() *Snapshot[T] { return &Snapshot[T]{Tree: state.NewTree[T]()} }

// Superseded is closed when the cache has a newer state.
func (s *Snapshot[T]) Superseded() <-chan struct{} { return s.superseded }

// Get returns the object with a key.
func (s *Snapshot[T]) Get(k handle.Key) (T, bool) {
	object, found := s.Tree.Of(k)
	return object.Get(), found
}

// All yields the objects by namespace and name.
func (s *Snapshot[T]) All() iter.Seq2[handle.Key, T] {
	return func(yield func(handle.Key, T) bool) {
		s.Tree.Scan(func(e state.Entry[T]) bool { return yield(e.Key, e.Object.Get()) })
	}
}

// In yields the objects of one namespace by name.
func (s *Snapshot[T]) In(namespace string) iter.Seq2[handle.Key, T] {
	return func(yield func(handle.Key, T) bool) {
		s.Tree.In(namespace, func(e state.Entry[T]) bool { return yield(e.Key, e.Object.Get()) })
	}
}

// Changes calls yield for what changed from older to s, until it returns false.
func (s *Snapshot[T]) Changes(older *Snapshot[T], yield func(state.Change[T]) bool) {
	state.Diff(older.Tree, s.Tree, s.RV, yield)
}

// Includes reports whether the write with resource version rv is in s. before is a
// state that did not include it. It returns an error if rv or s.RV is not a number.
func (s *Snapshot[T]) Includes(rv string, before *Snapshot[T]) (bool, error) {
	order, err := kube.CompareResourceVersion(s.RV, rv)
	return err == nil && (order >= 0 || s.shows(rv, before)), err
}

// shows reports whether the write is visible in one of several namespaces, although
// others have not come that far.
func (s *Snapshot[T]) shows(rv string, before *Snapshot[T]) bool {
	if s.positions == nil {
		return false
	}
	found := slices.Contains(s.positions, rv)
	if !found {
		s.Changes(before, func(c state.Change[T]) bool {
			found = found || c.RV == rv && !c.Inferred
			return !found
		})
	}
	return found
}
