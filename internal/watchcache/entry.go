package watchcache

import (
	"sync/atomic"

	"github.com/gapless-io/gapless/kube"
)

// Entry is one change of a resource, which cursors read and which turns one
// snapshot into the next. It is immutable once appended, and shared.
type Entry struct {
	// RV is the position of the change: what cursors and snapshots are at.
	RV kube.ResourceVersion
	// Object is the object after the change, stamped with RV; for a deletion its
	// last content, stamped with RV as well. In a mirror (Config.Mirror) it has the
	// resourceVersion that the other server gave it, which is what readers see.
	Object *kube.Object
	// Replaces says that there was an object before: it is not a creation.
	Replaces bool
	// Previous is the object before the change, under its own resourceVersion; nil
	// for a creation. Append replaces it with the object that the cache holds; History
	// need not read it for selections that do not look into objects.
	Previous *kube.Object
	Deleted  bool

	// Other forms of Object, for some watchers, are made on first use and then
	// shared by all.
	others atomic.Pointer[shown]
}

// shown is a form of an object for some watchers, in a list of forms.
type shown struct {
	left       bool   // it left their selection
	apiVersion string // in which it is shown
	object     *kube.Object
	next       *shown
}

// NewEntry returns the entry for a creation (previous is nil) or an update at rv.
func NewEntry(rv kube.ResourceVersion, object, previous *kube.Object) *Entry {
	return &Entry{RV: rv, Object: object, Previous: previous, Replaces: previous != nil}
}

// NewDeletion returns the entry for the deletion at rv of an object whose last
// content is previous.
func NewDeletion(rv kube.ResourceVersion, previous *kube.Object) *Entry {
	return NewMirroredDeletion(rv, rv, previous)
}

// NewMirroredDeletion is NewDeletion for a mirror, where readers see another
// resourceVersion than the position.
func NewMirroredDeletion(position, shown kube.ResourceVersion, previous *kube.Object) *Entry {
	return &Entry{RV: position, Object: previous.WithResourceVersion(shown), Previous: previous, Replaces: true, Deleted: true}
}

// before is the object before the change, or if History did not read it an object with
// the same key and uid.
func (e *Entry) before() *kube.Object {
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

// event returns the entry as t, one of the types that transition gave for it, in a
// form (nil: as it is stored).
func (e *Entry) event(t kube.EventType, form *Form) kube.WatchEvent {
	event := kube.WatchEvent{Type: t, ResourceVersion: e.Object.ResourceVersion(), Object: e.Object}
	left := t == kube.Deleted && !e.Deleted
	if left || form != nil && form.APIVersion != e.Object.APIVersion() {
		event.Object = e.show(left, form)
	}
	return event
}

// show makes an object on first use. When several cursors are first concurrently, each
// may make one, but all of them share the bytes of one in the end.
func (e *Entry) show(left bool, form *Form) *kube.Object {
	apiVersion := ""
	if form != nil {
		apiVersion = form.APIVersion
	}
	first := e.others.Load()
	for s := first; s != nil; s = s.next {
		if s.left == left && s.apiVersion == apiVersion {
			return s.object
		}
	}
	made := &shown{left: left, apiVersion: apiVersion, object: e.Object, next: first}
	if left {
		// The last state that the watcher saw, with the rv of the write that removed it.
		made.object = e.Previous.WithResourceVersion(e.Object.ResourceVersion())
	}
	if form != nil {
		made.object = form.Convert(made.object)
	}
	if e.others.CompareAndSwap(first, made) {
		return made.object
	}
	return e.show(left, form)
}
