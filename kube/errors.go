package kube

import (
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExpiredError reports that a resource version is too old: the request needs a change
// that was removed from history (410 Expired).
type ExpiredError struct {
	Requested ResourceVersion
	Oldest    ResourceVersion // the oldest that can still be read
	OldestAge time.Duration   // how old the change at Oldest is; 0 if unknown
	// OldestTime is when that change was made, by the server's clock; zero if unknown.
	OldestTime time.Time
	// the reason of the removal: "age", "bytes", "requested", "repair", ReasonDefinition, ReasonReplaced,
	// ReasonUnseen, ReasonUnreadable; "" if unknown
	Reason    string
	RemovedAt time.Time // when that was; zero if unknown
	// RequestedTime is the time that was asked for, instead of Requested; zero if it was not by time. It is not
	// on the wire.
	RequestedTime time.Time
	// Kind is the kind of the request, because the texts differ.
	Kind ExpiredKind
	// Continue is a usable token (at the latest revision) for ExpiredContinue.
	Continue string
}

// ReasonDefinition is the ExpiredError.Reason of history that belongs to an
// earlier definition of the resource, which was deleted and re-created.
const ReasonDefinition = "definition"

// ExpiredKind is the kind of an expired request.
type ExpiredKind int

// The kinds of requests that expire.
const (
	ExpiredWatch ExpiredKind = iota + 1
	ExpiredList
	ExpiredContinue
)

func (e *ExpiredError) Error() string {
	if !e.RequestedTime.IsZero() {
		return "history does not go back to " + e.RequestedTime.UTC().Format(time.RFC3339Nano) + ": " + e.Why()
	}
	return fmt.Sprintf("too old resource version: %d (%d)", e.Requested, e.Oldest)
}

// TooLargeResourceVersionError reports that a resource version is in the future, also
// after a wait of 3 s (504 Timeout).
type TooLargeResourceVersionError struct {
	Requested ResourceVersion
	Current   ResourceVersion
}

func (e *TooLargeResourceVersionError) Error() string {
	return fmt.Sprintf(tooLarge+": %d, current: %d", e.Requested, e.Current)
}

// tooLarge is the text by which clients know a resource version of the future.
const tooLarge = "Too large resource version"

// Status is what a server answers: 504 Timeout with upstream's cause. A client tries again
// after a second.
func (e *TooLargeResourceVersionError) Status() metav1.Status {
	s := failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	s.Message = "Timeout: " + e.Error()
	s.Details = &metav1.StatusDetails{
		RetryAfterSeconds: 1,
		Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: tooLarge}},
	}
	return s
}

// DecodeError reports that bytes are not JSON, or not the JSON of an API object.
type DecodeError struct {
	Offset int    // where in the input, in bytes; -1 if unknown
	Why    string // "metadata.name is not a string"
}

func (e *DecodeError) Error() string {
	if e.Offset < 0 {
		return "decode object: " + e.Why
	}
	return fmt.Sprintf("decode object: %s at byte %d", e.Why, e.Offset)
}
