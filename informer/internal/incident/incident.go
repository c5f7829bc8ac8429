// Package incident lists what can go wrong in an informer.
//
// A [Kind] is what went wrong, an [Incident] one occurrence of it, and a [PanicError] what a
// user's function panicked with.
//
// Package informer documents each kind. Its constants have the same numbers and its
// names are those of Kind.String; a test in package informer keeps them equal.
package incident

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// Kind says what went wrong; 0 is nothing.
type Kind int

// The kinds between an informer and its server.
const (
	Gone Kind = iota + 1
	SilentGone
	TooLarge
	WentBack
	Throttled
	Refused
	Denied
	NotServed
	Rejected
	NoStreamingList
	NoEndBookmark
	ShortWatch
	Disconnected
	Silent
	ServerError
	Undecodable
	Stale
	Gap
)

// The kinds of handlers, indices and the snapshot file.
const (
	HandlerFailed Kind = Gap + 1 + iota
	HandlerPanicked
	HandlerGaveUp
	HandlerMerged
	HandlerStopped
	IndexPanicked
	PersistFailed
)

// String returns the kind in lower case with underscores, for logs and metrics; ""
// for 0.
func (k Kind) String() string {
	names := [...]string{
		0: "", Gone: "gone", SilentGone: "silent_gone", TooLarge: "too_large", WentBack: "went_back",
		Throttled: "throttled", Refused: "refused", Denied: "denied", NotServed: "not_served",
		Rejected: "rejected", NoStreamingList: "no_streaming_list", NoEndBookmark: "no_end_bookmark",
		ShortWatch: "short_watch", Disconnected: "disconnected", Silent: "silent", ServerError: "server_error",
		Undecodable: "undecodable", Stale: "stale", Gap: "gap", HandlerFailed: "handler_failed",
		HandlerPanicked: "handler_panicked", HandlerGaveUp: "handler_gave_up", HandlerMerged: "handler_merged",
		HandlerStopped: "handler_stopped", IndexPanicked: "index_panicked", PersistFailed: "persist_failed",
	}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("incident_%d", int(k))
	}
	return names[k]
}

// Incident is one occurrence of a kind. The fields after Kind are set where they apply.
type Incident struct {
	Kind Kind
	Err  error  // the cause
	RV   string // the position in the server's history
	// Key is the object; Key.Namespace alone is the namespace whose stream it is about.
	Key     types.NamespacedName
	Handler string // the name of the handler
	Next    string // what is done about it
}

// String returns all fields in one line.
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

// Attrs returns the fields as slog attributes.
func (i Incident) Attrs() []any {
	attrs := []any{slog.String("kind", i.Kind.String()), slog.String("rv", i.RV)}
	if i.Key.Name != "" {
		attrs = append(attrs, slog.String("key", i.Key.String()))
	}
	if i.Handler != "" {
		attrs = append(attrs, slog.String("handler", i.Handler))
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	if i.Next != "" {
		attrs = append(attrs, slog.String("next", i.Next))
	}
	return attrs
}

// PanicError is what a user's function panicked with.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
