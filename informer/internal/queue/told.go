// Package queue tells one handler how objects change: per key, never an older state
// after a newer one, never two at once.
//
// It has three nouns. A [Change] is what happened to an object in a cache. A [Queue]
// merges the changes of each key that waits, retries what the handler fails at, and
// is behind by at most a deletion and a state per key. A [Told] is what the handler
// is told: the way from what it handled last to the newest state.
//
// The zero value of an object stands everywhere for "not there".
package queue

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// Change is one object's way from one state to the next.
type Change[T comparable] struct {
	Key      Key
	Old, New T
	// Last is the last state known of an object that was deleted; it can be newer than Old.
	Last T
	// RV is the resource version of the change.
	RV string
	// Inferred says that nobody saw the deletion.
	Inferred bool
}

// Kind says what a handler is told about an object.
type Kind int

// The kinds, in the order of informer.EventType.
const (
	Added Kind = iota + 1
	Modified
	Deleted
	Resync
)

// Told is what a handler is told. Its fields are those of informer.Event.
type Told[T comparable] struct {
	Kind              Kind
	Key               Key
	Old, New          T
	RV                string
	Initial, Inferred bool
	Merged, Attempt   int
}

// Options says how a handler is called.
type Options struct {
	// Workers is how many calls for different keys run at once.
	Workers int
	// RetryMin and RetryMax bound the pause before a key is tried again; Retries is
	// how often it is, 0: for ever.
	RetryMin, RetryMax time.Duration
	Retries            int
	// Every is how many versions wait at most, if they are not merged, and WhenFull
	// what is done about more; 0: they are merged.
	Every    int
	WhenFull Policy
	// KeysOnly says that the handler looks at Told.Key alone: all that waits of a key
	// is one call, deletions too.
	KeysOnly bool
	// SkipInitial says that the state at the beginning is known to the handler.
	SkipInitial bool
}

// TroubleKind says what went wrong.
type TroubleKind int

// The kinds of trouble: a call returned an error, it panicked, or it failed as often
// as Options.Retries allows; versions were merged, or the queue was stopped, because
// more waited than Options.Every allows.
const (
	Failed TroubleKind = iota + 1
	Panicked
	GaveUp
	Restated
	Stopped
)

// Trouble is what went wrong with a call, or with the queue: then there is no key.
// Next says what is done about it.
type Trouble struct {
	Kind TroubleKind
	Err  error
	Key  Key
	RV   string
	Next string
}

// PanicError is what a handler panicked with.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
