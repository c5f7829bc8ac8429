package informer

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/queue"
)

// HandleOption says how a handler is called.
type HandleOption func(*handleOptions)

type handleOptions struct {
	name   string
	resync time.Duration
	queue  queue.Options
	where  []any // func(T) bool
	differ []any // func(older, newer T) bool
}

func newHandleOptions(opts []HandleOption) handleOptions {
	o := handleOptions{
		queue: queue.Options{Workers: 1, RetryMin: 200 * time.Millisecond, RetryMax: time.Minute, ErrFull: ErrFull},
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Name names the handler in incidents and errors. The default is a number.
func Name(name string) HandleOption {
	return func(o *handleOptions) { o.name = name }
}

// Workers calls the handler from n goroutines, for different keys at once, but never
// for the same key. The default is 1.
func Workers(n int) HandleOption {
	return func(o *handleOptions) { o.queue.Workers = max(n, 1) }
}

// Retry says how a key is retried after an error: after the pause least, then after
// twice the pause each time, up to most. After limit retries (0: no limit) it is given
// up, with the incident HandlerGaveUp. The default is 200 ms to 1 min without limit.
func Retry(least, most time.Duration, limit int) HandleOption {
	return func(o *handleOptions) {
		o.queue.RetryMin = max(least, time.Millisecond)
		o.queue.RetryMax = max(most, o.queue.RetryMin)
		o.queue.Retries = max(limit, 0)
	}
}

// EveryResync re-delivers every object once per period even if it did not change,
// evenly spread over the period. It reads the cache and never the server.
func EveryResync(period time.Duration) HandleOption {
	return func(o *handleOptions) { o.resync = period }
}

// Policy says what happens when more versions wait than Every allows.
type Policy int

// The policies of Every.
const (
	// Block stops reading from the server, for all handlers of the informer, until there
	// is room. What was read at once, a list or up to 256 events, is added completely. A
	// handler that fails forever stops the informer.
	Block Policy = iota
	// Merge merges the waiting versions as if Every were not set, reports a
	// HandlerMerged incident, and continues to merge until half of the bound is free.
	// Event.Merged then says how many versions an event stands for.
	Merge
	// Fail stops the handler with a HandlerStopped incident; Registration.Err returns
	// ErrFull.
	Fail
)

// Every delivers each version that the informer gets, in order, instead of merging the
// changes of a key that waits. At most bound versions wait; full says what happens to
// more. Under Merge and Fail the initial objects do not count. It is for audits and
// tests.
func Every(bound int, full Policy) HandleOption {
	return func(o *handleOptions) {
		o.queue.Every = max(bound, 1)
		o.queue.WhenFull = queue.Policy(full) // they have the same order
	}
}

// SkipInitial treats the objects that exist at the beginning as handled: the handler is
// called for them only when they change or are deleted.
func SkipInitial() HandleOption {
	return func(o *handleOptions) { o.queue.SkipInitial = true }
}

// Where selects objects, as API servers treat selectors: an object that begins to match
// is Added, and one that no longer matches is Deleted, with the state that the handler
// handled last as Old. If there are several, an object must match all. The handler's
// workers call match. It must depend only on the object; a panic counts as a panic of
// the handler.
func Where[T Object](match func(T) bool) HandleOption {
	return func(o *handleOptions) { o.where = append(o.where, match) }
}

// Changed skips modifications that leave the value of field unchanged, compared with the
// state that the handler handled last or that was skipped. If there are several, one
// value that differs is enough. Added, Deleted, Resync, keys from Enqueue, and the
// newest state after a failed call are always delivered. The handler's workers call
// field. It must depend only on the object; a panic counts as a panic of the handler.
func Changed[T Object, V comparable](field func(T) V) HandleOption {
	return func(o *handleOptions) {
		o.differ = append(o.differ, func(a, b T) bool { return field(a) != field(b) })
	}
}
