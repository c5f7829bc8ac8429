package cache

import (
	"context"
	"slices"
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/queue"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// Handler is a queue that the cache fills.
type Handler[T handle.Object] struct {
	*queue.Queue[T]
	// Name is in the handler's incidents.
	Name string
	// SkipInitial says that the handler does not get the objects that exist when it is
	// added.
	SkipInitial bool
	// Resync is the period of resyncs; 0: there are none.
	Resync time.Duration
	// Pulled says that the queue has no workers: its user pulls the deliveries.
	Pulled bool
}

// Add adds a handler: it gets the objects of the current snapshot, and then each
// change. A queue that was stopped is not added.
func (c *Cache[T]) Add(h *Handler[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.Err() != nil {
		return
	}
	if now := c.current.Load(); now.RV != "" {
		if !h.SkipInitial {
			all := make([]state.Change[T], 0, now.Tree.Len())
			now.Tree.Scan(func(e state.Entry[T]) bool {
				all = append(all, state.Change[T]{Key: e.Key, New: e.Object, RV: e.Object.GetResourceVersion()})
				return true
			})
			h.Add(all, true)
		}
		h.Prime()
	}
	c.handlers = append(c.handlers, h)
	if c.run != nil {
		c.startLocked(h)
	}
}

// feedLocked gives a handler changes. A run is open.
func (c *Cache[T]) feedLocked(h *Handler[T], changes []state.Change[T], initial bool) {
	full := h.Add(changes, initial)
	if full.Kind == 0 {
		return
	}
	// Not under mu. The run waits for it.
	c.run.group.Go(func() {
		if full.Kind == incident.HandlerStopped {
			c.Remove(h, full.Err)
		}
		full.Handler = h.Name
		c.hooks.Report(full)
	})
}

// startLocked starts a handler's goroutines. They end with the context of the run, or
// with the handler.
func (c *Cache[T]) startLocked(h *Handler[T]) {
	if !h.Pulled {
		h.Start(c.run.ctx, c.run.group.Go)
	}
	if h.Resync > 0 {
		ctx := c.run.ctx
		c.run.group.Go(func() { c.resync(ctx, h) })
	}
}

// Remove stops a handler for good, for the reason why. It does not wait for running
// calls.
func (c *Cache[T]) Remove(h *Handler[T], why error) {
	c.mu.Lock()
	// A copy: waitRoom may still walk over the old one.
	c.handlers = slices.DeleteFunc(slices.Clone(c.handlers), func(other *Handler[T]) bool { return other == h })
	c.mu.Unlock()
	h.Stop(why)
}

// Enqueue re-delivers the current state of a key to a handler.
func (c *Cache[T]) Enqueue(h *Handler[T], key handle.Key) {
	// Under mu, so that the queue has nothing newer.
	c.mu.Lock()
	defer c.mu.Unlock()
	object, found := c.current.Load().Tree.Of(key)
	rv := ""
	if found {
		rv = object.GetResourceVersion()
	}
	h.Enqueue(key, object, rv)
}

// waitRoom waits for handlers that want every version and are full. A run is open.
func (c *Cache[T]) waitRoom() {
	c.mu.Lock()
	handlers, run := c.handlers, c.run
	c.mu.Unlock()
	for _, h := range handlers {
		h.WaitRoom(run.ctx)
	}
}

// resync re-delivers all objects once per period, a few at a time.
func (c *Cache[T]) resync(ctx context.Context, h *Handler[T]) {
	select {
	case <-c.synced: // there are no objects before
	case <-ctx.Done():
		return
	case <-h.Done():
		return
	}
	var last handle.Key
	for {
		wait, n := portion(c.current.Load().Tree.Len(), h.Resync)
		if pause(ctx, h.Done(), wait); ctx.Err() != nil || h.Err() != nil {
			return
		}
		// Under mu, so that the queue has nothing newer than what is read here.
		c.mu.Lock()
		now := c.current.Load()
		some := now.Tree.After(last, n)
		if len(some) < n && last != (handle.Key{}) {
			some = append(some, now.Tree.After(handle.Key{}, n-len(some))...) // and on from the beginning
		}
		for _, e := range some {
			h.Queue.Resync(e.Key, e.Object, e.Object.GetResourceVersion())
		}
		c.mu.Unlock()
		if len(some) > 0 {
			last = some[len(some)-1].Key
		}
	}
}

// portion divides a period: how long to wait, and how many of total objects are due
// then. Pauses are at least 50 ms, so that many objects cost few wake-ups.
func portion(total int, period time.Duration) (wait time.Duration, n int) {
	if total == 0 {
		return period, 1
	}
	wait = max(period/time.Duration(total), min(50*time.Millisecond, period))
	return wait, int((int64(total)*int64(wait) + int64(period) - 1) / int64(period))
}

// pause waits for a time, or for the end of ctx or done.
func pause(ctx context.Context, done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-done:
	case <-timer.C:
	}
}
