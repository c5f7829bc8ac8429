package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/kube"
)

// Keeper writes a tree. It belongs to one goroutine.
type Keeper[T handle.Object] struct {
	Tree Tree[T]
	// Unread are the objects whose newest version could not be decoded, with its metadata.
	Unread map[handle.Key]client.Meta

	// gone are the objects whose deletion was the last event, at position goneAt: for them
	// another event of that version is a repetition.
	gone   map[handle.Key]types.UID
	goneAt string
}

// NewKeeper returns a keeper of an empty tree.
func NewKeeper[T handle.Object]() Keeper[T] {
	return Keeper[T]{Tree: NewTree[T](), Unread: map[handle.Key]client.Meta{}, gone: map[handle.Key]types.UID{}}
}

// Verdict says what happened to an event.
type Verdict int

// The verdicts: the event was applied; the tree has that version already; the event was
// older than an earlier one and was dropped.
const (
	Taken Verdict = iota
	Known
	Stale
)

// Upsert applies an ADDED or MODIFIED event of a watch at the given position, and appends
// the change.
func (k *Keeper[T]) Upsert(changes []Change[T], object handle.Handle[T], position string) ([]Change[T], Verdict) {
	key, rv := handle.KeyOf(object), object.GetResourceVersion()
	old, had := k.Tree.Of(key)
	switch {
	case had && Same(old, object):
		return changes, Known
	case had && kube.OlderRV(rv, old.GetResourceVersion()):
		return changes, Stale
	case !had && (kube.OlderRV(rv, position) || rv == position && k.deleted(key, object.GetUID(), position)):
		// The object was deleted since: the server repeats an event. An object as new as the
		// position is another one of the same transaction, unless it was deleted there.
		return changes, Stale
	}
	k.Tree.Put(object)
	return replaced(changes, old, object), Taken
}

// deleted reports whether an object was deleted at exactly that position.
func (k *Keeper[T]) deleted(key handle.Key, uid types.UID, position string) bool {
	was, is := k.gone[key]
	return is && k.goneAt == position && was == uid
}

// replaced appends the change from old to object; another UID is another object.
func replaced[T handle.Object](changes []Change[T], old, object handle.Handle[T]) []Change[T] {
	key, rv := handle.KeyOf(object), object.GetResourceVersion()
	var none handle.Handle[T]
	if old != none && old.GetUID() != object.GetUID() {
		changes = append(changes, Change[T]{Key: key, Old: old, Last: old, RV: rv, Inferred: true})
		old = none
	}
	return append(changes, Change[T]{Key: key, Old: old, New: object, RV: rv})
}

// Remove applies a DELETED event of a watch at the given position, and appends the
// change. last is the object in the event; zero if it could not be decoded.
func (k *Keeper[T]) Remove(changes []Change[T], of client.Meta, last handle.Handle[T], position string) ([]Change[T], Verdict) {
	key := handle.Key{Namespace: of.Namespace, Name: of.Name}
	old, had := k.Tree.Of(key)
	if !had {
		return changes, Known
	}
	if kube.OlderRV(of.ResourceVersion, old.GetResourceVersion()) {
		return changes, Stale
	}
	var none handle.Handle[T]
	if last == none || last.GetUID() != old.GetUID() {
		last = old // the newest state that is known
	}
	k.Tree.Drop(key)
	if kube.OlderRV(position, of.ResourceVersion) {
		position = of.ResourceVersion
	}
	if k.goneAt != position {
		clear(k.gone)
		k.goneAt = position
	}
	k.gone[key] = old.GetUID()
	return append(changes, Change[T]{Key: key, Old: old, Last: last, RV: of.ResourceVersion}), Taken
}

// Has returns the tree's entry of an object, if it is the version that meta describes.
func (k *Keeper[T]) Has(meta client.Meta) (is Entry[T], has bool) {
	is, had := k.Tree.Get(Entry[T]{Key: handle.Key{Namespace: meta.Namespace, Name: meta.Name}})
	return is, had && is.Object.GetUID() == meta.UID && is.Object.GetResourceVersion() == meta.ResourceVersion &&
		meta.ResourceVersion != ""
}

// Gathering is a whole state that is being read. For objects that did not change it
// holds the tree's own handles, so that reading the state again needs no second copy.
type Gathering[T handle.Object] struct {
	// Anew says that objects with equal UID and resource version can differ.
	Anew bool

	objects map[handle.Key]handle.Handle[T]
	unread  map[handle.Key]client.Meta
}

// NewGathering returns an empty gathering.
func NewGathering[T handle.Object]() *Gathering[T] {
	return &Gathering[T]{objects: map[handle.Key]handle.Handle[T]{}, unread: map[handle.Key]client.Meta{}}
}

// Len is how many objects were gathered.
func (g *Gathering[T]) Len() int { return len(g.objects) }

// Known is how many objects there are, decoded or not.
func (g *Gathering[T]) Known() int { return len(g.objects) + len(g.unread) }

// Keep adds an object as it is in the tree.
func (g *Gathering[T]) Keep(e Entry[T]) {
	g.objects[e.Key] = e.Object
	delete(g.unread, e.Key)
}

// Unreadable adds an object that cannot be decoded. It exists, so it must not count as
// deleted: it keeps the state that the tree has, if that is the same object and not newer
// (then it is from a history that the server lost, and its deletion would look stale).
func (g *Gathering[T]) Unreadable(k *Keeper[T], meta client.Meta) {
	key := handle.Key{Namespace: meta.Namespace, Name: meta.Name}
	g.unread[key] = meta
	delete(g.objects, key)
	if old, had := k.Tree.Of(key); had && old.GetUID() == meta.UID &&
		!kube.OlderRV(meta.ResourceVersion, old.GetResourceVersion()) {
		g.objects[key] = old
	}
}

// Put adds an object, or a newer state of it.
func (g *Gathering[T]) Put(object handle.Handle[T]) {
	key := handle.KeyOf(object)
	g.objects[key] = object
	delete(g.unread, key)
}

// Drop removes an object.
func (g *Gathering[T]) Drop(key handle.Key) {
	delete(g.objects, key)
	delete(g.unread, key)
}

// Replace replaces the tree's objects with g and returns the changes, by key. An object
// that did not change causes none. rv is the version of g, which cannot be used any more.
func (k *Keeper[T]) Replace(g *Gathering[T], rv string) []Change[T] {
	var changes []Change[T]
	if more := len(g.objects) - k.Tree.Len(); more > 0 {
		changes = make([]Change[T], 0, more) // at the first state nothing is left over
	}
	k.Tree.Scan(func(e Entry[T]) bool {
		if _, is := g.objects[e.Key]; !is {
			changes = append(changes, Change[T]{Key: e.Key, Old: e.Object, Last: e.Object, RV: rv, Inferred: true})
		}
		return true
	})
	for _, c := range changes {
		k.Tree.Drop(c.Key)
	}
	for key, object := range g.objects {
		old, had := k.Tree.Of(key)
		if had && (old == object || Same(old, object) && (!g.Anew || Alike(old, object))) {
			continue
		}
		k.Tree.Set(Entry[T]{Key: key, Object: object})
		changes = replaced(changes, old, object)
	}
	k.Unread, g.objects = g.unread, nil // it is not needed while the changes are published
	slices.SortStableFunc(changes, func(a, b Change[T]) int { return Compare(a.Key, b.Key) })
	return changes
}
