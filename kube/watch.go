package kube

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

// String returns the type as on the wire: "ADDED", "MODIFIED",
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

// DeltaAnnotation marks the bookmark that ends the initial events if these are not
// the state but only the changes after a resourceVersion, which is its value. It is
// an extension of gapless (docs/extensions.md).
const DeltaAnnotation = "gapless.io/delta-since"
