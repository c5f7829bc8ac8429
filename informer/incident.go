package informer

import (
	"fmt"
	"time"

	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/kube"
)

// IncidentKind says what went wrong.
type IncidentKind int

// The kinds of incidents. None of them ends an informer; all of them are counted
// in Status.Incidents.
const (
	// Gone is a 410: the resource version is too old. The state is read again.
	Gone = IncidentKind(course.Gone)
	// SilentGone is a watch that the server ended at once and without a word several
	// times in a row, which some proxies make of a 410 (kubernetes#137089).
	SilentGone = IncidentKind(course.SilentGone)
	// TooLarge is a 504 for a resource version that the server does not know yet.
	TooLarge = IncidentKind(course.TooLarge)
	// WentBack is a server whose history ended before what it had told before.
	WentBack = IncidentKind(course.WentBack)
	// Throttled is a 429.
	Throttled = IncidentKind(course.Throttled)
	// Refused is a connection that could not be made.
	Refused = IncidentKind(course.Refused)
	// Denied is a 401 or 403.
	Denied = IncidentKind(course.Denied)
	// NotServed is a 404: the server does not have the resource (yet).
	NotServed = IncidentKind(course.NotServed)
	// Rejected is a 400, 406, 422 and the like: the server does not take the request.
	Rejected = IncidentKind(course.Rejected)
	// NoStreamingList says that the server does not know streaming lists. LIST is
	// used from now on.
	NoStreamingList = IncidentKind(course.NoStreamingList)
	// NoEndBookmark says that a streaming list did not end: the bookmark that marks
	// the end did not come in time. LIST is used from now on.
	NoEndBookmark = IncidentKind(course.NoEndBookmark)
	// ShortWatch is a watch that ended cleanly within 2 s without an event.
	ShortWatch = IncidentKind(course.ShortWatch)
	// Disconnected is a request or watch that broke, or a timeout of the network.
	Disconnected = IncidentKind(course.Disconnected)
	// Silent is a watch without a sign of life for too long; it was given up.
	Silent = IncidentKind(course.Silent)
	// ServerError is a 5xx, as answer or in the stream, or an error nobody knows.
	ServerError = IncidentKind(course.ServerError)
	// Undecodable is an object or a frame that could not be read. The object keeps
	// its last readable state, and Status.Undecodable counts it until it is
	// readable again or gone.
	Undecodable = IncidentKind(course.Undecodable)
	// Stale is an event that was older than what the stream had said before. It was
	// dropped.
	Stale = IncidentKind(course.Stale)
)

// The kinds of incidents that are the handlers' and indices'.
const (
	// HandlerFailed is a handler that returned an error; the key is tried again.
	HandlerFailed IncidentKind = IncidentKind(course.Troubles) + iota
	// HandlerPanicked is a handler that panicked; the key is tried again.
	HandlerPanicked
	// HandlerGaveUp is a handler that failed as often as its Retry allows. The change
	// is taken as handled.
	HandlerGaveUp
	// HandlerRestated is a handler that wants every version and fell so far behind
	// that those that wait were merged; see Restate.
	HandlerRestated
	// HandlerStopped is a handler that the informer stopped: it was full under the
	// policy Fail, or an option of it is for another type. Err says which.
	HandlerStopped
	// IndexPanicked is the function of an index that panicked; the object is left out
	// of that index until its next state.
	IndexPanicked
	// PersistFailed is the file of Persist that could not be used, read or written. The
	// informer goes on without it, and tries to write it again.
	PersistFailed
)

// String returns the name as one lower-case word, for logs and metrics.
func (k IncidentKind) String() string {
	names := [...]string{
		Gone: "gone", SilentGone: "silent_gone", TooLarge: "too_large", WentBack: "went_back",
		Throttled: "throttled", Refused: "refused", Denied: "denied", NotServed: "not_served",
		Rejected: "rejected", NoStreamingList: "no_streaming_list", NoEndBookmark: "no_end_bookmark",
		ShortWatch: "short_watch", Disconnected: "disconnected", Silent: "silent", ServerError: "server_error",
		Undecodable: "undecodable", Stale: "stale", HandlerFailed: "handler_failed",
		HandlerPanicked: "handler_panicked", HandlerGaveUp: "handler_gave_up", HandlerRestated: "handler_restated",
		HandlerStopped: "handler_stopped", IndexPanicked: "index_panicked",
		PersistFailed: "persist_failed",
	}
	if k <= 0 || int(k) >= len(names) {
		return fmt.Sprintf("incident_%d", int(k))
	}
	return names[k]
}

// Incident is something that went wrong, as a value.
type Incident struct {
	Kind IncidentKind
	At   time.Time
	// Err is the cause, for kube.Classify and errors.As; nil for Silent, SilentGone,
	// ShortWatch, NoEndBookmark, Stale and WentBack, where nobody returned one.
	Err error
	// RV is the informer's position then.
	RV string
	// Key is the object, where it is about one. Of an informer of several namespaces,
	// Key.Namespace alone is the namespace that could not be read.
	Key Key
	// Handler is the name of the handler, where it is about one.
	Handler string
	// Next says what the informer does about it: "list", "stream", "watch" or "wait
	// 800ms, then watch"; "" if nothing changes.
	Next string
}

// String says all of it on one line.
func (i Incident) String() string {
	s := i.Kind.String()
	if i.Handler != "" {
		s += " handler=" + i.Handler
	}
	switch {
	case i.Key.Name != "":
		s += " key=" + i.Key.String()
	case i.Key.Namespace != "":
		s += " namespace=" + i.Key.Namespace
	}
	if i.RV != "" {
		s += " rv=" + i.RV
	}
	if i.Err != nil {
		s += ": " + i.Err.Error()
	}
	if why := kube.WhyExpired(i.Err); why != nil && i.Kind == Gone {
		s += "; " + why.Error()
	}
	if i.Next != "" {
		s += " (" + i.Next + ")"
	}
	return s
}

// PanicError is what a handler panicked with.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
