package watchcache

import (
	"sync/atomic"

	"github.com/gapless-io/gapless/kube"
)

// Entry is one change of a resource: what every cursor reads and what makes one
// snapshot the next. It is immutable once appended, and shared.
type Entry struct {
	RV kube.ResourceVersion
	// Object is the object after the change, stamped with RV; for a deletion its
	// last content, stamped with RV as well.
	Object *kube.Object
	// Previous is the object before the change, under its own resourceVersion; nil
	// for a creation. Append replaces it with the object that the cache holds.
	Previous *kube.Object
	Deleted  bool

	// Objects that some watchers are shown instead of Object are made on first use,
	// and then shared by all.
	others atomic.Pointer[shown]
}

// shown is an object as some watchers see it, in a list of those that were made.
type shown struct {
	left       bool   // it left their selection
	apiVersion string // in which it is shown
	object     *kube.Object
	next       *shown
}

// NewEntry returns the entry for a creation (previous is nil) or an update at rv.
func NewEntry(rv kube.ResourceVersion, object, previous *kube.Object) *Entry {
	return &Entry{RV: rv, Object: object, Previous: previous}
}

// NewDeletion returns the entry for the deletion at rv of an object whose last
// content is previous.
func NewDeletion(rv kube.ResourceVersion, previous *kube.Object) *Entry {
	return &Entry{RV: rv, Object: previous.WithResourceVersion(rv), Previous: previous, Deleted: true}
}

// size is what the entry keeps in memory, in bytes. Previous counts too, though
// mostly it is an older entry's object.
func (e *Entry) size() int64 {
	n := int64(len(e.Object.JSON()))
	if e.Previous != nil {
		n += int64(len(e.Previous.JSON()))
	}
	return n
}

// event returns the entry as t, one of the types that transition gave for it, in
// an API version ("": as it is stored).
func (e *Entry) event(t kube.EventType, apiVersion string) kube.WatchEvent {
	event := kube.WatchEvent{Type: t, ResourceVersion: e.RV, Object: e.Object}
	if t != kube.Added {
		event.Previous = e.Previous
	}
	left := t == kube.Deleted && !e.Deleted
	if left || apiVersion != "" && apiVersion != e.Object.APIVersion() {
		event.Object = e.show(left, apiVersion)
	}
	return event
}

// show makes an object on first use. When several cursors come first at once each
// may make one, but all of them share the bytes of one in the end.
func (e *Entry) show(left bool, apiVersion string) *kube.Object {
	first := e.others.Load()
	for s := first; s != nil; s = s.next {
		if s.left == left && s.apiVersion == apiVersion {
			return s.object
		}
	}
	made := &shown{left: left, apiVersion: apiVersion, object: e.Object, next: first}
	if left {
		// What the watcher saw last, with the rv of the write that took it away
		// (server.md 3.2).
		made.object = e.Previous.WithResourceVersion(e.RV)
	}
	if apiVersion != "" {
		made.object = made.object.WithAPIVersion(apiVersion)
	}
	if e.others.CompareAndSwap(first, made) {
		return made.object
	}
	return e.show(left, apiVersion)
}
