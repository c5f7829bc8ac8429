// Package queue delivers the changes of objects to one handler: per key in order, and
// never two calls at once.
//
// A [Queue] merges the changes of each key that waits, retries the keys that the handler
// failed at, and holds at most a deletion and a state per key. A [Delivery] is what one call
// of the handler gets: the change from the state that it handled last to the newest one. A
// [Filter] selects deliveries.
package queue

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

// Kind says how an object changed.
type Kind int

// The kinds, in the order of informer.EventType.
const (
	Added Kind = iota + 1
	Modified
	Deleted
	Resync
)

// Delivery is what one call of the handler gets. Its fields are those of informer.Event.
type Delivery[T handle.Object] struct {
	Kind              Kind
	Key               handle.Key
	Old, New          handle.Handle[T]
	RV                string
	Initial, Inferred bool
	Merged, Attempt   int
}

// Options says how a handler is called.
type Options struct {
	// Workers is how many calls for different keys run at once.
	Workers int
	// RetryMin and RetryMax bound the pause before a key is retried. Retries is how
	// often it is retried; 0: without limit.
	RetryMin, RetryMax time.Duration
	Retries            int
	// Every is how many versions may wait when they are not merged, and WhenFull what
	// happens to more; 0: versions are merged.
	Every    int
	WhenFull Policy
	// ErrFull is in the error of a queue that is full.
	ErrFull error
	// KeysOnly says that the handler uses only Delivery.Key: everything that waits for a
	// key is one call, deletions included.
	KeysOnly bool
	// SkipInitial says that the handler knows the initial state already.
	SkipInitial bool
}
