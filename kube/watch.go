package kube

import "context"

// EventType is the type of a watch frame.
type EventType int

// The event types of the protocol. InitialEventsEnd is the annotated bookmark
// that ends the initial events; on the wire it is a BOOKMARK.
const (
	Added EventType = iota + 1
	Modified
	Deleted
	Bookmark
	InitialEventsEnd
	Error
)

// String returns the type as it stands on the wire: "ADDED", "MODIFIED",
// "DELETED", "BOOKMARK" (also for InitialEventsEnd), "ERROR".
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	case Bookmark, InitialEventsEnd:
		return "BOOKMARK"
	case Error:
		return "ERROR"
	}
	return "UNKNOWN"
}

// WatchEvent is one event of a watch on the server's side.
type WatchEvent struct {
	Type EventType
	// ResourceVersion is the revision of the change (for Deleted and for an
	// object that left the selection: of the write that removed it), or the
	// position that a bookmark promises.
	ResourceVersion ResourceVersion
	// Object is the object as the watcher sees it, shared by all who see it so: for
	// Deleted the last content with the deleting revision. It is nil for InitialEventsEnd and Bookmark.
	Object *Object
	// Since is set on an InitialEventsEnd that ends a delta: the initial events were
	// what changed after it, and not the state (see DeltaAnnotation).
	Since ResourceVersion
	// Previous is what the same watcher saw of the object before, in the version in
	// which it is stored; nil for Added, and for the initial events.
	Previous *Object
}

// Watch is one watcher's stream, used by one goroutine at a time.
type Watch interface {
	// Next blocks until there are events and returns them in order. The slice
	// belongs to the caller until the next call, the events' contents are shared. Errors: *ExpiredError when
	// the history that this watcher needs was removed, *TooLargeResourceVersionError
	// when the initial state could not be had at the revision asked for, ctx's cause.
	// io.EOF when the resource is no longer served. ctx's cause leaves the stream as
	// it is, to be used on with another context; after any other error there is
	// nothing more.
	Next(ctx context.Context) ([]WatchEvent, error)
	// Position returns the resourceVersion up to which everything was considered
	// and returned by Next: a bookmark with it is true. It never decreases and is
	// 0 until the initial events (if any) have been returned completely. It
	// looks ahead over changes that are not this watcher's, so it moves on an
	// idle watch too; it returns the position before events that wait to be read.
	Position() ResourceVersion
	// Close releases the stream. It is safe to call more than once.
	Close()
}
