package watchcache

import (
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Entry is one change of a resource, which cursors read and which turns one
// snapshot into the next. It is immutable once appended, and shared.
type Entry struct {
	// RV is the position of the change: what cursors and snapshots are at.
	RV kube.ResourceVersion
	// Object is the object after the change, stamped with RV; for a deletion its
	// last content, stamped with RV as well (but see NewSharedDeletion). In a mirror (Config.Mirror) it has the
	// resourceVersion that the other server gave it, which is what readers see.
	Object *wire.Object
	// Replaces says that there was an object before: it is not a creation.
	Replaces bool
	// Previous is the object before the change, under its own resourceVersion; nil
	// for a creation. Append replaces it with the object that the cache holds; History
	// need not read it for selections that do not look into objects.
	Previous *wire.Object
	Deleted  bool
	// Hole says that the change is part of the difference over a hole. History sets it; for what is
	// appended AppendHole says it.
	Hole *Hole

	// Other forms of Object, for some watchers, are made on first use and then
	// shared by all.
	others atomic.Pointer[shown]
}

// shown is a form of an object for some watchers, in a list of forms.
type shown struct {
	of         *wire.Object // what it was made of
	apiVersion string       // in which it is shown; "": in the same one, with the entry's rv
	object     *wire.Object
	next       *shown
	forms      int // how many the list has
}

// mostShown is how many forms an entry keeps: with each schema that is changed while the entry is
// in memory there can be others.
const mostShown = 16

// NewEntry returns the entry for a creation (previous is nil) or an update at rv.
func NewEntry(rv kube.ResourceVersion, object, previous *wire.Object) *Entry {
	return &Entry{RV: rv, Object: object, Previous: previous, Replaces: previous != nil}
}

// NewDeletion returns the entry for the deletion at rv of an object whose last
// content is previous.
func NewDeletion(rv kube.ResourceVersion, previous *wire.Object) *Entry {
	return NewMirroredDeletion(rv, rv, previous)
}

// NewSharedDeletion is NewDeletion where other changes have, or could have, the same RV. A client
// that has got only this one, when its connection ends, must get the others when it comes back:
// so it is shown the RV before.
//
// kube-apiserver shows RV, and such a client misses the others: when the lease of many Events ends.
func NewSharedDeletion(rv kube.ResourceVersion, previous *wire.Object) *Entry {
	return NewMirroredDeletion(rv, rv-1, previous)
}

// NewMirroredDeletion is NewDeletion for a mirror, where readers see another
// resourceVersion than the position.
func NewMirroredDeletion(position, shown kube.ResourceVersion, previous *wire.Object) *Entry {
	return &Entry{RV: position, Object: previous.WithResourceVersion(shown), Previous: previous, Replaces: true, Deleted: true}
}

// before is the object before the change, or if History did not read it an object with
// the same key and uid.
func (e *Entry) before() *wire.Object {
	if e.Previous != nil {
		return e.Previous
	}
	return e.Object
}

// size is what the entry keeps in memory, in bytes of objects. Previous counts too, though
// mostly it is an older entry's object.
func (e *Entry) size() int64 {
	n := int64(e.Object.Size())
	if e.Previous != nil {
		n += int64(e.Previous.Size())
	}
	return n
}

// event returns the entry as t, one of the types that transition gave for it, in the
// selection's form.
func (e *Entry) event(t kube.EventType, s *Selection) wire.WatchEvent {
	o := e.Object
	if t == kube.Deleted && !e.Deleted {
		// The last state that the watcher saw, with the rv of the write that removed it.
		o = e.show(e.Previous, "", func(o *wire.Object) *wire.Object { return o.WithResourceVersion(e.Object.ResourceVersion()) })
	}
	o = formOf(o, s.Read)
	if form := s.Form; form != nil && form.APIVersion != o.APIVersion() {
		o = e.show(o, form.APIVersion, form.Convert)
	}
	return wire.WatchEvent{Type: t, ResourceVersion: e.Object.ResourceVersion(), Object: o}
}

// show makes a form of an object on first use. When several cursors are first concurrently,
// each may make one, but all of them share the bytes of one in the end.
func (e *Entry) show(of *wire.Object, apiVersion string, convert func(*wire.Object) *wire.Object) *wire.Object {
	first := e.others.Load()
	for s := first; s != nil; s = s.next {
		if s.of == of && s.apiVersion == apiVersion {
			return s.object
		}
	}
	made := &shown{of: of, apiVersion: apiVersion, object: convert(of), forms: 1}
	if first != nil && first.forms < mostShown {
		made.next, made.forms = first, first.forms+1
	}
	if e.others.CompareAndSwap(first, made) {
		return made.object
	}
	return e.show(of, apiVersion, convert)
}
