package kube

import (
	"fmt"
	"time"
)

// ExpiredError says that a resource version is too old: something that the
// request needs was removed from history (410 Expired).
type ExpiredError struct {
	Requested ResourceVersion
	Oldest    ResourceVersion // the oldest that can still be asked for
	OldestAge time.Duration   // how old the change at Oldest is; 0 if unknown
	Reason    string          // what removed the rest: "age", "bytes", "requested"; "" if unknown
	RemovedAt time.Time       // when that was; zero if unknown
	// Kind says what was asked, because the texts differ (server.md 1.2, 1.3, 2).
	Kind ExpiredKind
	// Continue is a usable token (at the latest revision) for ExpiredContinue.
	Continue string
}

// ExpiredKind is what kind of request met the end of history.
type ExpiredKind int

// The kinds of requests that expire.
const (
	ExpiredWatch ExpiredKind = iota + 1
	ExpiredList
	ExpiredContinue
)

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("too old resource version: %d (%d)", e.Requested, e.Oldest)
}

// TooLargeResourceVersionError says that a resource version lies in the future
// and did not come within the wait of 3 s (504 Timeout).
type TooLargeResourceVersionError struct {
	Requested ResourceVersion
	Current   ResourceVersion
}

func (e *TooLargeResourceVersionError) Error() string {
	return fmt.Sprintf("Too large resource version: %d, current: %d", e.Requested, e.Current)
}

// DecodeError says that bytes are not what they should be: not JSON, or JSON of
// another shape than an API object.
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
