package informer

import (
	"context"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/informer/internal/queue"
)

// HandleOption says how a handler is called.
type HandleOption func(*handleOptions)

type handleOptions struct {
	name   string
	resync time.Duration
	queue  queue.Options
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

// Every hands over each version the informer learns of, in order, instead of
// merging the changes of a key that waits. At most bound versions wait: when there
// are more, the informer stops reading from the server, for all its handlers, until
// there is room (what is read in one go, a list or up to 256 events, comes in
// whole). It is for audits and tests; a handler that fails for ever stops everything.
func Every(bound int) HandleOption {
	return func(o *handleOptions) { o.queue.Every = max(bound, 1) }
}

// Registration is a handler that was added to an informer.
type Registration struct {
	name   string
	queue  handlerQueue
	remove func()
}

// handlerQueue is a queue without its type.
type handlerQueue interface {
	Keys() int
	Synced() <-chan struct{}
	Stop(ctx context.Context) error
}

// Name returns the handler's name.
func (r *Registration) Name() string { return r.name }

// Synced is closed when the handler has been called, with or without success, for
// every object that was there at the beginning and still is.
func (r *Registration) Synced() <-chan struct{} { return r.queue.Synced() }

// WaitSynced blocks until Synced is closed or ctx ended, and then says why not.
func (r *Registration) WaitSynced(ctx context.Context) error {
	select {
	case <-r.queue.Synced():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("handler %s is not synced, %d keys are waiting: %w", r.name, r.Pending(), context.Cause(ctx))
	}
}

// Pending is how many keys the handler is behind on: waiting, in work, or to be
// tried again. It is never more than there are objects, deleted ones included that
// the handler knew.
func (r *Registration) Pending() int { return r.queue.Keys() }

// Stop removes the handler, drops what it has not been told, and waits until
// running calls have returned; their context is cancelled. When ctx ends before, it
// returns ctx's cause, and the calls are left to end. A handler that stops itself
// must not wait for it.
func (r *Registration) Stop(ctx context.Context) error {
	r.remove()
	if err := r.queue.Stop(ctx); err != nil {
		return fmt.Errorf("stop handler %s: %w", r.name, err)
	}
	return nil
}
