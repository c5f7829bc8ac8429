// Package cache merges the namespace streams of an informer into one state, publishes
// each state as a snapshot, and passes the changes on to indices and handlers.
//
// A [Cache] holds the current [Snapshot], which is one state and never changes. A [Handler] is
// a queue of changes and how it is fed. An [Update] is the step from one snapshot to the next.
// [Hooks] are called with what happens.
package cache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
)

// Hooks are called by the cache's goroutines, several at once, which wait for them.
type Hooks[T handle.Object] struct {
	// Report is called with each incident.
	Report func(incident.Incident)
	// Begin and End are called around each action of a namespace stream. objects is how
	// many objects the stream has then.
	Begin func(transition.Action)
	End   func(e reflector.Ending, objects int)
	// Published is called after a snapshot became the current one, which may have been
	// replaced since.
	Published func()
}

// Cache holds the state of one collection. All methods are safe for concurrent use
// unless they say otherwise.
type Cache[T handle.Object] struct {
	hooks   Hooks[T]
	current atomic.Pointer[Snapshot[T]]
	synced  chan struct{} // closed at the first complete state

	// mu guards handlers and run, and orders the current snapshot with the changes that
	// handlers get. A queue's lock may be taken under it.
	mu       sync.Mutex
	handlers []*Handler[T]
	run      *run // nil if no Run runs

	// publishing guards indexers, positions and merged. Its holder makes the next
	// snapshot. mu may be taken under it.
	publishing sync.Mutex
	indexers   []func(indexed any, changes []state.Change[T]) any
	positions  []string      // of the streams; "" before the first sync
	merged     state.Tree[T] // the streams' states in one tree, if there are several

	// noting guards noted: what is to be reported when no lock is held.
	noting sync.Mutex
	noted  []incident.Incident

	// streams, mirror and file are set before Run. file belongs to Run.
	streams []*stream[T]
	mirror  func(Update[T])
	file    *file[T] // nil until it is needed
}

// run is one Run: where further goroutines of it are started.
type run struct {
	ctx   context.Context //nolint:containedctx // Run's own, for handlers that are added while it runs
	group sync.WaitGroup
}

// New returns an empty cache without streams.
func New[T handle.Object](hooks Hooks[T]) *Cache[T] {
	c := &Cache[T]{hooks: hooks, synced: make(chan struct{})}
	first := Empty[T]()
	first.superseded = make(chan struct{})
	c.current.Store(first)
	return c
}

// Current returns the current snapshot.
func (c *Cache[T]) Current() *Snapshot[T] { return c.current.Load() }

// Synced is closed when the cache has held a complete state.
func (c *Cache[T]) Synced() <-chan struct{} { return c.synced }

// Mirror sets a function that is called with each update before any handler gets it.
// It must be called before Run.
func (c *Cache[T]) Mirror(f func(Update[T])) { c.mirror = f }

// Delivered blocks until the handlers' queues have the changes up to the current
// snapshot, which is visible a moment earlier so that a handler that is called sees it.
func (c *Cache[T]) Delivered() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

// Start begins a run: it starts the handlers' goroutines, which end with ctx. Only one
// run may be open at a time.
func (c *Cache[T]) Start(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = &run{ctx: ctx}
	for _, h := range c.handlers {
		c.startLocked(h)
	}
}

// Stop ends the run: it cancels the handlers' context with cancel and waits for their
// goroutines.
func (c *Cache[T]) Stop(cancel func()) {
	c.mu.Lock()
	run := c.run
	c.run = nil // from now on Handle starts nothing
	c.mu.Unlock()
	cancel()
	run.group.Wait()
}
