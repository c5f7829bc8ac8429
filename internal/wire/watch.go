package wire

import (
	"context"

	"github.com/gapless-io/gapless/kube"
)

// WatchEvent is one event of a watch on the server's side.
type WatchEvent struct {
	Type kube.EventType
	// ResourceVersion is the revision of the change (for Deleted and for an
	// object that left the selection: of the write that removed it), or the
	// position of a bookmark.
	ResourceVersion kube.ResourceVersion
	// Object is the object in the form that the watcher asked for, shared by all watchers
	// of that form: for Deleted the last content with the revision of the deletion. It is
	// nil for InitialEventsEnd and Bookmark.
	Object *Object
	// Since is set on an InitialEventsEnd that ends a delta: the initial events are
	// the changes after it, not the state (see DeltaAnnotation).
	Since kube.ResourceVersion
}

// Watch is one watcher's stream, used by one goroutine at a time.
type Watch interface {
	// Next blocks until there are events and returns them in order. The slice
	// is valid until the next call; the objects in it are shared. Errors: *ExpiredError if
	// the history that this watcher needs was removed, *TooLargeResourceVersionError if
	// the requested revision does not exist yet, io.EOF when the resource is no longer
	// served, and ctx's cause. After ctx's cause the watch can be read on with another
	// context; after any other error it has ended.
	Next(ctx context.Context) ([]WatchEvent, error)
	// Position returns the resourceVersion for a bookmark: Next has returned all events
	// up to it. It never decreases and is 0 until all initial events (if any) have been
	// returned. It also advances on an idle watch, past changes that the watch does not
	// select.
	Position() kube.ResourceVersion
	// Close releases the stream. It is safe to call more than once.
	Close()
}
