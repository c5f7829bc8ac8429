package informer

import (
	"slices"
	"strings"

	"github.com/gapless-io/gapless/client"

	"github.com/gapless-io/gapless/informer/internal/course"
)

// keeper is the writer's side of the cache: the tree that the next snapshot is a
// copy of. It belongs to one goroutine.
type keeper[T Object] struct {
	tree *tree[T]
	// unread are the objects whose newest state could not be decoded.
	unread map[Key]struct{}
}

func newKeeper[T Object]() keeper[T] {
	return keeper[T]{tree: newTree[T](), unread: map[Key]struct{}{}}
}

// verdict is what became of an event.
type verdict int

const (
	taken verdict = iota
	known         // the cache holds this very state; nothing to do
	stale         // older than what the stream had said before; dropped
)

// upsert takes over an object of a watch at the given position and appends what
// the handlers have to be told.
func (k *keeper[T]) upsert(changes []change[T], object T, position string) ([]change[T], verdict) {
	key, rv := keyOf(object), object.GetResourceVersion()
	old, had := k.tree.Get(entry[T]{key: key})
	switch {
	case had && same(old.object, object):
		return changes, known
	case had && course.Before(rv, old.object.GetResourceVersion()):
		return changes, stale
	case !had && (rv == position || course.Before(rv, position)):
		// It was deleted since: a server that repeats itself.
		return changes, stale
	}
	k.tree.Set(entry[T]{key: key, object: object})
	return replaced(changes, old.object, object), taken
}

// replaced appends the change from old to object; another UID is another object.
func replaced[T Object](changes []change[T], old, object T) []change[T] {
	key, rv := keyOf(object), object.GetResourceVersion()
	var none T
	if old != none && old.GetUID() != object.GetUID() {
		changes = append(changes, change[T]{Key: key, Old: old, RV: rv, Inferred: true})
		old = none
	}
	return append(changes, change[T]{Key: key, Old: old, New: object, RV: rv})
}

// remove takes over a deletion. last is the object as the server saw it last, the
// zero value if it could not be read.
func (k *keeper[T]) remove(changes []change[T], of client.Meta, last T) ([]change[T], verdict) {
	key := Key{Namespace: of.Namespace, Name: of.Name}
	old, had := k.tree.Get(entry[T]{key: key})
	if !had {
		return changes, known
	}
	if course.Before(of.ResourceVersion, old.object.GetResourceVersion()) {
		return changes, stale
	}
	var none T
	if last != none && last.GetUID() != old.object.GetUID() {
		last = none
	}
	k.tree.Delete(entry[T]{key: key})
	return append(changes, change[T]{Key: key, Old: old.object, Last: last, RV: of.ResourceVersion}), taken
}

// same says that two objects are the same state of the same object.
func same[T Object](a, b T) bool {
	rv := a.GetResourceVersion()
	return rv != "" && rv == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// gathering is a whole state that is being read. It holds the cache's own pointers
// for objects that did not change, so that reading the state again costs no second
// copy of it.
type gathering[T Object] struct {
	objects map[Key]T
	unread  map[Key]struct{}
}

// has says whether the cache holds the state of an object that meta describes.
func (k *keeper[T]) has(meta client.Meta) bool {
	old, had := k.tree.Get(entry[T]{key: Key{Namespace: meta.Namespace, Name: meta.Name}})
	return had && old.object.GetUID() == meta.UID && old.object.GetResourceVersion() == meta.ResourceVersion &&
		meta.ResourceVersion != ""
}

// keep takes over an object that the cache has.
func (g *gathering[T]) keep(k *keeper[T], meta client.Meta) {
	old, _ := k.tree.Get(entry[T]{key: Key{Namespace: meta.Namespace, Name: meta.Name}})
	g.objects[old.key] = old.object
	delete(g.unread, old.key)
}

// unreadable notes an object that cannot be decoded. It is there, so it must not be
// taken for deleted: the cache goes on with the state it has, if that was the same object.
func (g *gathering[T]) unreadable(k *keeper[T], meta client.Meta) {
	key := Key{Namespace: meta.Namespace, Name: meta.Name}
	g.unread[key] = struct{}{}
	delete(g.objects, key)
	if old, had := k.tree.Get(entry[T]{key: key}); had && old.object.GetUID() == meta.UID {
		g.objects[key] = old.object
	}
}

func (g *gathering[T]) put(object T) {
	key := keyOf(object)
	g.objects[key] = object
	delete(g.unread, key)
}

func (g *gathering[T]) drop(key Key) {
	delete(g.objects, key)
	delete(g.unread, key)
}

func newGathering[T Object]() *gathering[T] {
	return &gathering[T]{objects: map[Key]T{}, unread: map[Key]struct{}{}}
}

// replace makes the cache what was gathered and returns the difference, by key:
// nothing for an object that is as it was.
func (k *keeper[T]) replace(g *gathering[T], rv string) []change[T] {
	var changes []change[T]
	k.tree.Scan(func(e entry[T]) bool {
		if _, is := g.objects[e.key]; !is {
			changes = append(changes, change[T]{Key: e.key, Old: e.object, RV: rv, Inferred: true})
		}
		return true
	})
	for _, c := range changes {
		k.tree.Delete(entry[T]{key: c.Key})
	}
	for key, object := range g.objects {
		old, had := k.tree.Get(entry[T]{key: key})
		if had && (old.object == object || same(old.object, object)) {
			continue
		}
		k.tree.Set(entry[T]{key: key, object: object})
		changes = replaced(changes, old.object, object)
	}
	k.unread = g.unread
	slices.SortStableFunc(changes, func(a, b change[T]) int {
		if c := strings.Compare(a.Key.Namespace, b.Key.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Key.Name, b.Key.Name)
	})
	return changes
}
