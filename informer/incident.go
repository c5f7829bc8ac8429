package informer

import (
	"errors"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/informer/internal/incident"
)

// IncidentKind says what went wrong.
type IncidentKind int

// The kinds of incidents. No incident ends an informer, and Status.Incidents counts all
// of them.
const (
	// Gone is a 410: the resourceVersion is too old. The state is read again.
	Gone IncidentKind = iota + 1
	// SilentGone is a watch that the server ended at once and without an event several
	// times in a row, which some proxies make of a 410 (kubernetes#137089).
	SilentGone
	// TooLarge is a 504 for a resourceVersion that the server does not know yet.
	TooLarge
	// WentBack is a server whose history is not the one from before: it was restored from
	// a copy, or emptied. The state is read again and compared by content.
	WentBack
	// Throttled is a 429.
	Throttled
	// Refused is a connection that could not be opened.
	Refused
	// Denied is a 401 or 403.
	Denied
	// NotServed is a 404: the server does not have the resource, or not yet.
	NotServed
	// Rejected is a 400, 406, 422 and the like: the server does not accept the request.
	Rejected
	// NoStreamingList is a server that does not know streaming lists. LIST is used from
	// now on; with [ErrListNow] only this time.
	NoStreamingList
	// NoEndBookmark is a streaming list without an end: the bookmark that marks the end
	// did not come in time. LIST is used from now on.
	NoEndBookmark
	// ShortWatch is a watch that ended cleanly within 2 s without an event.
	ShortWatch
	// Disconnected is a request or watch whose connection broke, or a timeout of the
	// network.
	Disconnected
	// Silent is a watch that was closed because nothing came for too long.
	Silent
	// ServerError is a 5xx, as response or in the stream, or an unknown error.
	ServerError
	// Undecodable is an object or a frame that could not be decoded. The cache keeps the
	// object's last decoded state, and Status.Undecodable counts the object until it can
	// be decoded or is deleted.
	Undecodable
	// Stale is an event that was older than an earlier one of the stream. It was dropped.
	Stale
	// Gap is an event that does not follow from the cache's state: MODIFIED or DELETED of
	// an object that the cache does not have, or another UID without a deletion. An
	// earlier event was missed. The state is read again: at once, and then at most every
	// five minutes.
	Gap
)

// The kinds of incidents of handlers, indices and Persist.
const (
	// HandlerFailed is a handler that returned an error; the key is retried.
	HandlerFailed = Gap + 1 + iota
	// HandlerPanicked is a handler that panicked; the key is retried.
	HandlerPanicked
	// HandlerGaveUp is a handler that failed as often as its Retry allows. The change
	// counts as handled.
	HandlerGaveUp
	// HandlerMerged is a handler that wants every version and fell so far behind that
	// the waiting versions were merged; see Merge.
	HandlerMerged
	// HandlerStopped is a handler that the informer stopped: it was full under the policy
	// Fail, or one of its options is for another type. Err says which.
	HandlerStopped
	// IndexPanicked is an index function that panicked. The object is left out of that
	// index until it changes.
	IndexPanicked
	// PersistFailed is a snapshot file (see Persist) that could not be opened, read or
	// written. The informer goes on without it, and retries to write it.
	PersistFailed
)

// String returns the kind in lower case with underscores, for logs and metrics.
func (k IncidentKind) String() string { return incident.Kind(k).String() }

// Incident is something that went wrong.
type Incident struct {
	Kind IncidentKind
	At   time.Time
	// Err is the cause, for kube.Classify and errors.As. It can be nil for Silent,
	// SilentGone, ShortWatch, NoEndBookmark, Stale, Gap and WentBack.
	Err error
	// RV is the informer's resourceVersion at that time.
	RV string
	// Key is the object, if the incident is about one. In an informer of several
	// namespaces, Key.Namespace alone is the namespace that could not be read.
	Key Key
	// Handler is the name of the handler, if the incident is about one.
	Handler string
	// Next is what the informer does next, such as "list", "watch" or "wait 800ms to 1.2s,
	// then be watching"; "" if nothing changes.
	Next string
}

// newIncident is what users get of an incident of an internal package.
func newIncident(of incident.Incident) Incident {
	in := Incident{
		Kind: IncidentKind(of.Kind), At: time.Now(), Err: of.Err, RV: of.RV, Key: of.Key, Handler: of.Handler, Next: of.Next,
	}
	if p, is := errors.AsType[*incident.PanicError](of.Err); is {
		in.Err = &PanicError{Value: p.Value, Stack: p.Stack}
	}
	return in
}

// String returns all fields in one line.
func (i Incident) String() string { return i.plain().String() }

// plain is the incident without At.
func (i Incident) plain() incident.Incident {
	return incident.Incident{Kind: incident.Kind(i.Kind), Err: i.Err, RV: i.RV, Key: i.Key, Handler: i.Handler, Next: i.Next}
}

// PanicError is the error of a handler or index function that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
