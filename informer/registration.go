package informer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why a handler is not called any more; see Registration.Err.
var (
	// ErrStopped says that Registration.Stop was called.
	ErrStopped = errors.New("the handler was stopped")
	// ErrFull says that more versions waited than Every allows, under the policy Fail.
	ErrFull = errors.New("more versions wait than the handler allows")
)

// Registration is a handler that was added to an informer. All methods are safe for
// concurrent use.
type Registration struct {
	name    string
	queue   anyQueue
	synced  <-chan struct{}
	done    <-chan struct{}
	enqueue func(Key)
	remove  func()
}

// anyQueue is a handler's queue without its type parameter.
type anyQueue interface {
	Keys() int
	Lag() time.Duration
	Err() error
	Wait(ctx context.Context) error
}

// Name returns the handler's name.
func (r *Registration) Name() string { return r.name }

// Synced is closed when the handler has been called, with or without success, for
// every object that existed at the beginning and still exists.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// WaitSynced blocks until Synced is closed. It returns an error if the handler was
// stopped or ctx ended before.
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

// Pending is the number of keys that the handler has not handled: waiting, being
// handled, or to be retried. It is never more than the number of objects, including
// deleted ones that the handler knew.
func (r *Registration) Pending() int { return r.queue.Keys() }

// Lag is the age of the oldest change that the handler has not handled: waiting, being
// handled, or failed; 0 if there is none. Resyncs do not count. It takes time
// proportional to Pending.
func (r *Registration) Lag() time.Duration { return r.queue.Lag() }

// Enqueue re-delivers the key's current state as a Resync. If a change of the key waits,
// that is delivered instead, whatever Changed says and without the pause after a failure.
// A key without an object has an effect only on Reconcile, which is called with it.
// Before the cache is synced, and after Stop, Enqueue does nothing.
func (r *Registration) Enqueue(k Key) { r.enqueue(k) }

// Err says why the handler is not called any more: ErrStopped after Stop, ErrFull, or an
// error about an option that is for another type. It is nil while the handler is called.
func (r *Registration) Err() error { return r.queue.Err() }

// Stop removes the handler, drops the changes that wait, cancels the context of running
// calls and waits until they have returned. If ctx ends before, it returns ctx's cause
// and does not wait any longer. A handler that stops itself must not wait for it.
func (r *Registration) Stop(ctx context.Context) error {
	r.remove()
	if err := r.queue.Wait(ctx); err != nil {
		return fmt.Errorf("stop handler %s: %w", r.name, err)
	}
	return nil
}
