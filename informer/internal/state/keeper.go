package state

import (
	"slices"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/course"
)

// Keeper is the writer's side of a state. It belongs to one goroutine.
type Keeper[S Object] struct {
	Tree Tree[S]
	// Unread are the objects whose newest state could not be decoded.
	Unread map[Key]struct{}
}

// NewKeeper makes one of an empty state.
func NewKeeper[S Object]() Keeper[S] {
	return Keeper[S]{Tree: NewTree[S](), Unread: map[Key]struct{}{}}
}

// Verdict is what became of an event.
type Verdict int

// The verdicts: the event was taken over; the cache holds this very state; it was
// older than what the stream had said before, and was dropped.
const (
	Taken Verdict = iota
	Known
	Stale
)

// Upsert takes over an object of a watch at the given position and appends what
// the handlers have to be told.
func (k *Keeper[S]) Upsert(changes []Change[S], object S, position string) ([]Change[S], Verdict) {
	key, rv := KeyOf(object), object.GetResourceVersion()
	old, had := k.Tree.Of(key)
	switch {
	case had && Same(old, object):
		return changes, Known
	case had && course.Before(rv, old.GetResourceVersion()):
		return changes, Stale
	case !had && (rv == position || course.Before(rv, position)):
		// It was deleted since: a server that repeats itself.
		return changes, Stale
	}
	k.Tree.Put(object)
	return replaced(changes, old, object), Taken
}

// replaced appends the change from old to object; another UID is another object.
func replaced[S Object](changes []Change[S], old, object S) []Change[S] {
	key, rv := KeyOf(object), object.GetResourceVersion()
	var none S
	if old != none && old.GetUID() != object.GetUID() {
		changes = append(changes, Change[S]{Key: key, Old: old, Last: old, RV: rv, Inferred: true})
		old = none
	}
	return append(changes, Change[S]{Key: key, Old: old, New: object, RV: rv})
}

// Remove takes over a deletion. last is the object as the server saw it last, the
// zero value if it could not be read.
func (k *Keeper[S]) Remove(changes []Change[S], of client.Meta, last S) ([]Change[S], Verdict) {
	key := Key{Namespace: of.Namespace, Name: of.Name}
	old, had := k.Tree.Of(key)
	if !had {
		return changes, Known
	}
	if course.Before(of.ResourceVersion, old.GetResourceVersion()) {
		return changes, Stale
	}
	var none S
	if last == none || last.GetUID() != old.GetUID() {
		last = old // that much is known
	}
	k.Tree.Drop(key)
	return append(changes, Change[S]{Key: key, Old: old, Last: last, RV: of.ResourceVersion}), Taken
}

// Has returns what the cache holds of an object, if it is the state that meta describes.
func (k *Keeper[S]) Has(meta client.Meta) (is Entry[S], has bool) {
	is, had := k.Tree.Get(Entry[S]{Key: Key{Namespace: meta.Namespace, Name: meta.Name}})
	return is, had && is.Object.GetUID() == meta.UID && is.Object.GetResourceVersion() == meta.ResourceVersion &&
		meta.ResourceVersion != ""
}

// Gathering is a whole state that is being read. It holds the cache's own pointers
// for objects that did not change, so that reading the state again costs no second
// copy of it.
type Gathering[S Object] struct {
	objects map[Key]S
	unread  map[Key]struct{}
}

// NewGathering makes an empty one.
func NewGathering[S Object]() *Gathering[S] {
	return &Gathering[S]{objects: map[Key]S{}, unread: map[Key]struct{}{}}
}

// Len is how many objects were gathered.
func (g *Gathering[S]) Len() int { return len(g.objects) }

// Keep takes over what the cache has of an object.
func (g *Gathering[S]) Keep(e Entry[S]) {
	g.objects[e.Key] = e.Object
	delete(g.unread, e.Key)
}

// Unreadable notes an object that cannot be decoded. It is there, so it must not be
// taken for deleted: the cache goes on with the state it has, if that was the same object
// and is not from a history that the server lost, whose deletion would look stale.
func (g *Gathering[S]) Unreadable(k *Keeper[S], meta client.Meta) {
	key := Key{Namespace: meta.Namespace, Name: meta.Name}
	g.unread[key] = struct{}{}
	delete(g.objects, key)
	if old, had := k.Tree.Of(key); had && old.GetUID() == meta.UID && !course.Before(meta.ResourceVersion, old.GetResourceVersion()) {
		g.objects[key] = old
	}
}

// Put takes over a new object or state.
func (g *Gathering[S]) Put(object S) {
	key := KeyOf(object)
	g.objects[key] = object
	delete(g.unread, key)
}

// Drop takes an object out.
func (g *Gathering[S]) Drop(key Key) {
	delete(g.objects, key)
	delete(g.unread, key)
}

// Replace makes the cache what was gathered and returns the difference, by key:
// nothing for an object that is as it was. rv is the state's. g is used up.
func (k *Keeper[S]) Replace(g *Gathering[S], rv string) []Change[S] {
	var changes []Change[S]
	if more := len(g.objects) - k.Tree.Len(); more > 0 {
		changes = make([]Change[S], 0, more) // at the first state nothing is left over
	}
	k.Tree.Scan(func(e Entry[S]) bool {
		if _, is := g.objects[e.Key]; !is {
			changes = append(changes, Change[S]{Key: e.Key, Old: e.Object, Last: e.Object, RV: rv, Inferred: true})
		}
		return true
	})
	for _, c := range changes {
		k.Tree.Drop(c.Key)
	}
	for key, object := range g.objects {
		old, had := k.Tree.Of(key)
		if had && (old == object || Same(old, object)) {
			continue
		}
		k.Tree.Set(Entry[S]{Key: key, Object: object})
		changes = replaced(changes, old, object)
	}
	k.Unread, g.objects = g.unread, nil // what was gathered is not needed while the changes are told
	slices.SortStableFunc(changes, func(a, b Change[S]) int { return Compare(a.Key, b.Key) })
	return changes
}
