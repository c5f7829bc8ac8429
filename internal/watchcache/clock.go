package watchcache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gapless-io/gapless/kube"
)

// Clock is the store's published revision, shared by all caches of one store: the
// highest revision of which every change, of every resource, was appended to its
// cache. It also advances resources without writes. It is safe for concurrent
// use.
type Clock struct {
	published atomic.Uint64

	// mu guards waiters, and orders Publish with the registration of a waiter.
	mu      sync.Mutex
	waiters []*clockWaiter
}

type clockWaiter struct {
	rv      kube.ResourceVersion
	reached chan struct{} // closed by Publish
}

// NewClock returns a clock at rv.
func NewClock(rv kube.ResourceVersion) *Clock {
	c := &Clock{}
	c.published.Store(uint64(rv))
	return c
}

// Published returns the published revision. A caller that reads it before a cache's
// state knows that the state holds every change up to it.
func (c *Clock) Published() kube.ResourceVersion {
	return kube.ResourceVersion(c.published.Load())
}

// Publish moves the clock to rv, after everything up to rv was appended, and wakes
// the calls that wait for it. It never moves back: a smaller rv does nothing.
func (c *Clock) Publish(rv kube.ResourceVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rv <= c.Published() {
		return
	}
	c.published.Store(uint64(rv))
	c.waiters = slices.DeleteFunc(c.waiters, func(w *clockWaiter) bool {
		if w.rv > rv {
			return false
		}
		close(w.reached)
		return true
	})
}

// ErrStopped says that the publisher of a clock has stopped.
var ErrStopped = errors.New("publishing has stopped")

// WaitPublished blocks until the clock is at or above rv, or returns ctx's cause.
func (c *Clock) WaitPublished(ctx context.Context, rv kube.ResourceVersion) error {
	return c.WaitWhilePublishing(ctx, rv, nil)
}

// WaitWhilePublishing is WaitPublished that also ends, with ErrStopped, when stopped is closed.
func (c *Clock) WaitWhilePublishing(ctx context.Context, rv kube.ResourceVersion, stopped <-chan struct{}) error {
	w := c.register(rv)
	if w == nil {
		return nil
	}
	var err error
	select {
	case <-w.reached:
		return nil
	case <-stopped:
		err = ErrStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.unregister(w)
	return err
}

// register returns nil when rv is published already.
func (c *Clock) register(rv kube.ResourceVersion) *clockWaiter {
	if rv <= c.Published() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if rv <= c.Published() {
		return nil
	}
	w := &clockWaiter{rv: rv, reached: make(chan struct{})}
	c.waiters = append(c.waiters, w)
	return w
}

func (c *Clock) unregister(w *clockWaiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = slices.DeleteFunc(c.waiters, func(other *clockWaiter) bool { return other == w })
}
