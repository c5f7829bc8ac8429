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

	// What watchers are shown is made on first use, and then shared by all.
	added, modified, removed atomic.Pointer[shown]
}

// shown is an entry as a watcher sees it: the object and its whole line.
type shown struct {
	object *kube.Object
	frame  []byte
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

// size is what the entry keeps in memory, in bytes. Previous counts too: mostly it
// is an older entry's object, and then it stands for the encoded frame.
func (e *Entry) size() int64 {
	n := int64(len(e.Object.JSON()))
	if e.Previous != nil {
		n += int64(len(e.Previous.JSON()))
	}
	return n
}

// event returns the entry as t, one of the types that transition gave for it.
func (e *Entry) event(t kube.EventType) kube.WatchEvent {
	event := kube.WatchEvent{Type: t, ResourceVersion: e.RV}
	var s *shown
	switch t {
	case kube.Added:
		s = e.show(&e.added, t)
	case kube.Modified:
		s = e.show(&e.modified, t)
		event.Previous = e.Previous
	case kube.Deleted:
		s = e.show(&e.removed, t)
		event.Previous = e.Previous
	case kube.Bookmark, kube.InitialEventsEnd, kube.Error:
		panic("watchcache: an entry is never shown as " + t.String())
	}
	event.Object, event.Frame = s.object, s.frame
	return event
}

// show encodes on first use. When several cursors come first at once each may
// encode, but all of them share the bytes of one.
func (e *Entry) show(slot *atomic.Pointer[shown], t kube.EventType) *shown {
	if s := slot.Load(); s != nil {
		return s
	}
	object := e.Object
	if t == kube.Deleted && !e.Deleted {
		// It left the selection: what the watcher saw last, with the rv of the
		// write that took it away (server.md 3.2).
		object = e.Previous.WithResourceVersion(e.RV)
	}
	s := &shown{object: object, frame: kube.Frame(t, object)}
	if slot.CompareAndSwap(nil, s) {
		return s
	}
	return slot.Load()
}
