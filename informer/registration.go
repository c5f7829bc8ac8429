package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/informer/internal/queue"
)

// Why a handler is not called any more; see Registration.Err.
var (
	// ErrStopped says that Registration.Stop was called.
	ErrStopped = errors.New("the handler was stopped")
	// ErrFull says that more versions waited than Every allows, under the policy Fail.
	ErrFull = queue.ErrFull
)

// Registration is a handler that was added to an informer. All methods are safe for
// concurrent use.
type Registration struct {
	name    string
	queue   handlerQueue
	synced  <-chan struct{}
	done    <-chan struct{}
	enqueue func(Key)
	remove  func()
}

// handlerQueue is a queue without its type.
type handlerQueue interface {
	Keys() int
	Lag() time.Duration
	Err() error
	Wait(ctx context.Context) error
}

// Name returns the handler's name.
func (r *Registration) Name() string { return r.name }

// Synced is closed when the handler has been called, with or without success, for
// every object that was there at the beginning and still is.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// WaitSynced blocks until Synced is closed, the handler was stopped, or ctx ended,
// and in the latter cases says why it is not synced.
func (r *Registration) WaitSynced(ctx context.Context) error {
	select {
	case <-r.synced:
		return nil
	case <-r.done:
		return fmt.Errorf("handler %s will not be synced: %w", r.name, r.queue.Err())
	case <-ctx.Done():
		return fmt.Errorf("handler %s is not synced, %d keys are waiting: %w", r.name, r.Pending(), context.Cause(ctx))
	}
}

// Pending is how many keys the handler is behind on: waiting, in work, or to be
// tried again. It is never more than there are objects, deleted ones included that
// the handler knew.
func (r *Registration) Pending() int { return r.queue.Keys() }

// Lag is how long ago the informer learned of the oldest change that the handler has
// not handled: waiting, in work, or failed; 0 if there is none. Resyncs are no
// changes. It looks at each of the Pending keys.
func (r *Registration) Lag() time.Duration { return r.queue.Lag() }

// Enqueue hands the state that the key has now over once more, as a Resync, or tells
// of what waits for the key in any case and without the pause after a failure. It is
// merged with what comes before it is told. A key without an object is of use to
// Reconcile only, which is called with it. Before the cache is synced, and after
// Stop, it does nothing.
func (r *Registration) Enqueue(k Key) { r.enqueue(k) }

// Err says why the handler is not called any more: ErrStopped after Stop, ErrFull,
// or that an option is of another type than the informer's; nil: it is.
func (r *Registration) Err() error { return r.queue.Err() }

// Stop removes the handler, drops what it has not been told, and waits until
// running calls have returned; their context is cancelled. When ctx ends before, it
// returns ctx's cause, and the calls are left to end. A handler that stops itself
// must not wait for it.
func (r *Registration) Stop(ctx context.Context) error {
	r.remove()
	if err := r.queue.Wait(ctx); err != nil {
		return fmt.Errorf("stop handler %s: %w", r.name, err)
	}
	return nil
}
