// Package state is what an informer's cache holds, and how one state becomes the
// next.
//
// It has four nouns. A [Tree] is one state: objects by namespace and name, in a tree
// whose copy costs nothing. A [Keeper] is the writer's side of one: it takes over
// events and says what they changed. A [Gathering] is a whole state that is being
// read, which the keeper compares with its own. [Diff] is the way from one tree to
// another.
package state

import (
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer/internal/queue"
)

// Key names an object.
type Key = types.NamespacedName

// Change is one object's way from one state to the next.
type Change[S comparable] = queue.Change[S]

// Object is what a state holds; the zero value stands for "not there".
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// KeyOf is the object's key.
func KeyOf[S Object](o S) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// Same says that two objects are the same state of the same object.
func Same[S Object](a, b S) bool {
	rv := a.GetResourceVersion()
	return rv != "" && rv == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// Compare orders by namespace and name.
func Compare(a, b Key) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Entry is one object in a tree.
type Entry[S Object] struct {
	Key    Key
	Object S
}

// Tree is a persistent B-tree: a copy costs nothing, and afterwards a change to
// either copies the few nodes on its path (1–2 µs among 100 000 objects). It has no
// locks: who writes it makes a copy for those who read.
type Tree[S Object] struct {
	*btree.BTreeG[Entry[S]]
}

// NewTree makes an empty tree.
func NewTree[S Object]() Tree[S] {
	return Tree[S]{btree.NewBTreeGOptions(func(a, b Entry[S]) bool { return Compare(a.Key, b.Key) < 0 }, btree.Options{NoLocks: true})}
}

// Copy is a tree that does not change with t.
func (t Tree[S]) Copy() Tree[S] { return Tree[S]{t.BTreeG.Copy()} }

// Of returns the object under a key.
func (t Tree[S]) Of(k Key) (S, bool) {
	e, found := t.Get(Entry[S]{Key: k})
	return e.Object, found
}

// Put puts an object in, in place of the one with its key.
func (t Tree[S]) Put(o S) { t.Set(Entry[S]{Key: KeyOf(o), Object: o}) }

// Drop takes the object under a key out.
func (t Tree[S]) Drop(k Key) { t.Delete(Entry[S]{Key: k}) }

// Apply makes changes, in order.
func (t Tree[S]) Apply(changes []Change[S]) {
	var none S
	for _, c := range changes {
		if c.New == none {
			t.Drop(c.Key)
		} else {
			t.Set(Entry[S]{Key: c.Key, Object: c.New})
		}
	}
}

// In calls f for the objects of one namespace by name, until it returns false.
func (t Tree[S]) In(namespace string, f func(Entry[S]) bool) {
	t.Ascend(Entry[S]{Key: Key{Namespace: namespace}}, func(e Entry[S]) bool {
		return e.Key.Namespace == namespace && f(e)
	})
}

// After returns up to n objects behind key, for walks that pause.
func (t Tree[S]) After(key Key, n int) []Entry[S] {
	some := make([]Entry[S], 0, n)
	t.Ascend(Entry[S]{Key: key}, func(e Entry[S]) bool {
		if e.Key != key {
			some = append(some, e)
		}
		return len(some) < n
	})
	return some
}
