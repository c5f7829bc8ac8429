package informer

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/informer/internal/course"
)

// entry is one object in the tree.
type entry[T Object] struct {
	key    Key
	object T
}

// tree is a persistent B-tree: a copy costs nothing, and afterwards a change to
// either copies the few nodes on its path (1–2 µs among 100 000 objects).
type tree[T Object] = btree.BTreeG[entry[T]]

func newTree[T Object]() *tree[T] {
	// Only the goroutine of Run changes the writer's tree, and readers get copies, so
	// the tree's own locks would guard nothing.
	return btree.NewBTreeGOptions(func(a, b entry[T]) bool { return compareKeys(a.key, b.key) < 0 }, btree.Options{NoLocks: true})
}

// compareKeys orders by namespace and name.
func compareKeys(a, b Key) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// snapshot is one state of the cache. Nothing of it changes, but that superseded
// is closed.
type snapshot[T Object] struct {
	tree *tree[T]
	rv   string
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
	return &snapshot[T]{tree: newTree[T](), superseded: make(chan struct{})}
}

// successor is the state after changes. publishing must be held.
func (i *Informer[T]) successor(changes []change[T], rv string) *snapshot[T] {
	now := i.current.Load()
	next := &snapshot[T]{tree: now.tree, rv: rv, epoch: now.epoch, indexed: now.indexed, superseded: make(chan struct{})}
	if course.Before(rv, now.rv) {
		next.epoch++
	}
	if len(changes) > 0 {
		next.tree = i.keeper.tree.Copy()
		next.indexed = make([]any, len(now.indexed))
		for n, index := range i.indexers {
			next.indexed[n] = index(now.indexed[n], changes)
		}
	}
	i.gauge(next)
	return next
}

// after yields up to n objects behind key, for walks that pause.
func (s *snapshot[T]) after(key Key, n int) []entry[T] {
	some := make([]entry[T], 0, n)
	s.tree.Ascend(entry[T]{key: key}, func(e entry[T]) bool {
		if e.key != key {
			some = append(some, e)
		}
		return len(some) < n
	})
	return some
}

func (s *snapshot[T]) get(k Key) (T, bool) {
	e, found := s.tree.Get(entry[T]{key: k})
	return e.object, found
}

// all yields the objects by namespace and name.
func (s *snapshot[T]) all() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s.tree.Scan(func(e entry[T]) bool { return yield(e.key, e.object) })
	}
}

// in yields the objects of one namespace by name.
func (s *snapshot[T]) in(namespace string) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		s.tree.Ascend(entry[T]{key: Key{Namespace: namespace}}, func(e entry[T]) bool {
			return e.key.Namespace == namespace && yield(e.key, e.object)
		})
	}
}

// Snapshot is one state of an informer's cache, whole and unchanging: however long
// it is read, all that it says was true together, at RV. Taking one costs nothing;
// while it is held, the objects in it stay in memory. The zero value is empty.
type Snapshot[T Object] struct{ of *snapshot[T] }

// state is what s stands for.
func (s Snapshot[T]) state() *snapshot[T] {
	if s.of == nil {
		return &snapshot[T]{tree: newTree[T]()}
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
