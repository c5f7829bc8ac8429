package informer

import (
	"fmt"
	"reflect"
	"slices"
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
	differ []any // func(before, now T) bool
}

func newHandleOptions(opts []HandleOption) handleOptions {
	o := handleOptions{queue: queue.Options{Workers: 1, RetryMin: 200 * time.Millisecond, RetryMax: time.Minute}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Name names the handler in incidents and errors; otherwise it gets a number.
func Name(name string) HandleOption {
	return func(o *handleOptions) { o.name = name }
}

// Workers calls the handler from n goroutines at once, for different keys; never
// for the same key. Without it there is one.
func Workers(n int) HandleOption {
	return func(o *handleOptions) { o.queue.Workers = max(n, 1) }
}

// Retry says how a key is tried again after an error: after least, then after twice
// as long each time, at most most; and that it is given up after limit retries (0:
// never), which is an incident. Without it: 200 ms to 1 min, never given up.
func Retry(least, most time.Duration, limit int) HandleOption {
	return func(o *handleOptions) {
		o.queue.RetryMin = max(least, time.Millisecond)
		o.queue.RetryMax = max(most, o.queue.RetryMin)
		o.queue.Retries = max(limit, 0)
	}
}

// EveryResync hands every object over once per period even if nothing changed,
// evenly spread over the period. It reads the cache and never the server.
func EveryResync(period time.Duration) HandleOption {
	return func(o *handleOptions) { o.resync = period }
}

// Policy says what becomes of a handler that wants every version when more wait than
// its bound.
type Policy int

// The policies of Every.
const (
	// Block stops reading from the server, for all handlers of the informer, until
	// there is room; what is read in one go, a list or up to 256 events, comes in
	// whole. A handler that fails for ever stops everything.
	Block Policy = iota
	// Restate merges what waits as if Every had not been asked for, reports a
	// HandlerRestated incident, and goes on so until half of the bound is free.
	// Event.Merged then says how many versions an event stands for.
	Restate
	// Fail stops the handler, with a HandlerStopped incident; its Registration.Err is ErrFull.
	Fail
)

// Every hands over each version the informer learns of, in order, instead of
// merging the changes of a key that waits. At most bound versions wait; full says
// what happens when there are more. What was there at the beginning does not count
// under Restate and Fail. It is for audits and tests.
func Every(bound int, full Policy) HandleOption {
	return func(o *handleOptions) {
		o.queue.Every = max(bound, 1)
		switch full {
		case Block:
			o.queue.WhenFull = queue.Block
		case Restate:
			o.queue.WhenFull = queue.Restate
		case Fail:
			o.queue.WhenFull = queue.Fail
		}
	}
}

// SkipInitial takes what is there when the handler begins as handled: the handler
// hears of these objects when they change or are deleted.
func SkipInitial() HandleOption {
	return func(o *handleOptions) { o.queue.SkipInitial = true }
}

// Where lets the handler hear only of objects that match, as if there were no
// others, which is how API servers treat selectors: an object that comes to match is
// Added, and one that no longer does is Deleted, with the state that the handler
// knew as Old. Several must all match. Like the handler it is called by its workers;
// it may depend on the object only, and a panic is taken as one of the handler.
func Where[T Object](match func(T) bool) HandleOption {
	return func(o *handleOptions) { o.where = append(o.where, match) }
}

// Changed tells of a modification only if the value that field returns differs
// between the state that the handler handled last, or passed over for having the
// same value, and the newest one. Of several it is enough that one differs. Added,
// Deleted, Resync, what Enqueue asked for, and the newest state after a failed call
// are told in any case. Like the handler it is called by its workers; it may depend
// on the object only, and a panic is taken as one of the handler.
func Changed[T Object, V comparable](field func(T) V) HandleOption {
	return func(o *handleOptions) {
		o.differ = append(o.differ, func(a, b T) bool { return field(a) != field(b) })
	}
}

// filterOf makes one of all filters. They are of the handler's type, or it is an error.
func filterOf[T Object](o handleOptions) (f queue.Filter[held[T]], err error) {
	var where []func(T) bool
	var differ []func(T, T) bool
	for _, option := range o.where {
		match, is := option.(func(T) bool)
		if !is {
			return f, fmt.Errorf("Where is a %T, the handler's objects are %s", option, reflect.TypeFor[T]())
		}
		where = append(where, match)
	}
	for _, option := range o.differ {
		differs, is := option.(func(T, T) bool)
		if !is {
			return f, fmt.Errorf("Changed compares as %T, the handler's objects are %s", option, reflect.TypeFor[T]())
		}
		differ = append(differ, differs)
	}
	if len(where) > 0 {
		f.Where = func(h held[T]) bool {
			object := h.Get()
			return !slices.ContainsFunc(where, func(match func(T) bool) bool { return !match(object) })
		}
	}
	if len(differ) > 0 {
		f.Differs = func(older, newer held[T]) bool {
			a, b := older.Get(), newer.Get()
			return slices.ContainsFunc(differ, func(differs func(T, T) bool) bool { return differs(a, b) })
		}
	}
	return f, nil
}
