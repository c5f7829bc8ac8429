// Package state holds the objects of a collection and computes what changes in it.
//
// A [Tree] is one state: objects by namespace and name, in a tree that is cheap to copy. A
// [Change] is how one object changed between two states. A [Keeper] writes a tree: it applies
// events and returns the changes. A [Gathering] is a whole state that is being read, with
// which the keeper replaces its own.
package state

import (
	"reflect"
	"strings"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

// Change is how one object changed from one state to the next. A zero handle means that
// there is no object.
type Change[T handle.Object] struct {
	Key      handle.Key
	Old, New handle.Handle[T]
	// Last is the last known state of a deleted object; it can be newer than Old.
	Last handle.Handle[T]
	// RV is the resource version of the change.
	RV string
	// Inferred says that a deletion was concluded from a list that did not have the object.
	Inferred bool
}

// Same reports whether a and b are the same version of the same object.
func Same[T handle.Object](a, b handle.Handle[T]) bool {
	rv := a.GetResourceVersion()
	return rv != "" && rv == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// Alike reports whether a and b are the same version of the same object and have the
// same content. It is slow. A server whose history went back can give another content
// the same UID and resource version.
func Alike[T handle.Object](a, b handle.Handle[T]) bool {
	return a == b || Same(a, b) && reflect.DeepEqual(a.Get(), b.Get())
}

// Compare orders by namespace and name.
func Compare(a, b handle.Key) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Entry is one object in a tree.
type Entry[T handle.Object] struct {
	Key    handle.Key
	Object handle.Handle[T]
}

// Tree is a persistent B-tree: a copy takes constant time, and a change to either copy
// copies the few nodes on its path (1–2 µs among 100 000 objects). It has no locks: the
// writer copies it for readers.
type Tree[T handle.Object] struct {
	*btree.BTreeG[Entry[T]]
}

// NewTree returns an empty tree.
func NewTree[T handle.Object]() Tree[T] {
	return Tree[T]{
		btree.NewBTreeGOptions(func(a, b Entry[T]) bool { return Compare(a.Key, b.Key) < 0 }, btree.Options{NoLocks: true}),
	}
}

// Copy returns a tree that does not change with t.
func (t Tree[T]) Copy() Tree[T] { return Tree[T]{t.BTreeG.Copy()} }

// Of returns the object under a key.
func (t Tree[T]) Of(k handle.Key) (handle.Handle[T], bool) {
	e, found := t.Get(Entry[T]{Key: k})
	return e.Object, found
}

// Put adds an object, or replaces the one with its key.
func (t Tree[T]) Put(o handle.Handle[T]) { t.Set(Entry[T]{Key: handle.KeyOf(o), Object: o}) }

// Drop removes the object under a key.
func (t Tree[T]) Drop(k handle.Key) { t.Delete(Entry[T]{Key: k}) }

// Apply applies changes in order.
func (t Tree[T]) Apply(changes []Change[T]) {
	var none handle.Handle[T]
	for _, c := range changes {
		if c.New == none {
			t.Drop(c.Key)
		} else {
			t.Set(Entry[T]{Key: c.Key, Object: c.New})
		}
	}
}

// In calls f for the objects of one namespace by name, until it returns false.
func (t Tree[T]) In(namespace string, f func(Entry[T]) bool) {
	t.Ascend(Entry[T]{Key: handle.Key{Namespace: namespace}}, func(e Entry[T]) bool {
		return e.Key.Namespace == namespace && f(e)
	})
}

// After returns up to n objects that follow key.
func (t Tree[T]) After(key handle.Key, n int) []Entry[T] {
	some := make([]Entry[T], 0, n)
	t.Ascend(Entry[T]{Key: key}, func(e Entry[T]) bool {
		if e.Key != key {
			some = append(some, e)
		}
		return len(some) < n
	})
	return some
}
