// Package gc deletes objects whose owners are gone, and does what a deletion in the
// foreground or with orphans asks for: Kubernetes' garbage collector, with the rules of
// kubernetes pkg/controller/garbagecollector.
//
// The [Collector] follows all changes and runs the workers. The graph has what references say:
// a vertex for each object that has owners, is named as an owner or waits for its dependents,
// and an edge for each reference. A finding is what is known about the owners that one object
// names.
//
// The graph is changed by the registry's publisher before a write is acknowledged, so that
// it is never behind what workers read, and holds no object that has nothing to do with
// owners. It has no state of its own: a start reads it from the objects.
//
// handle.go decides, classify.go looks up owners, graph.go has the graph; docs/controllers.md.
package gc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what a Collector needs of a registry.
type Verbs interface {
	Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error)
	List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error)
	Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error)
	Patch(ctx context.Context, t kinds.Target, p wire.Patch, o metav1.PatchOptions) (wire.Written, error)
	Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error)
}

// Config configures a Collector. Live and Logger are required.
type Config struct {
	Live   *kinds.Live
	Logger *slog.Logger
	// Unknown returns an error while there are objects of which nothing is known, in a namespace or without
	// one, or ("") in any: they may be dependents. nil: there are none.
	Unknown func(namespace string) error
	// Writable returns why the store refuses every write now: nothing is tried then. nil: it
	// does not.
	Writable func() error
}

// Collector is a garbage collector. It is a registry.Collector.
type Collector struct {
	live     *kinds.Live
	logger   *slog.Logger
	writable func() error
	unknown  func(namespace string) error
	verbs    Verbs // set by Run, before the workers begin
	graph    graph
	kinds    atomic.Pointer[served]
	pace     pace
	refused  atomic.Bool // the log says that the store refuses writes

	deleted, released, errors atomic.Int64
}

// workers is how many objects are handled concurrently. They share the syncs of the store: the
// slower these are, the more workers wait for the same one. See pace for what they leave to clients.
const workers = 64

// How long an object waits after its first failure, and at most: each failure doubles it.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Minute
)

// storeRetry is how often a store is asked that refuses writes, for whatever object.
const storeRetry = 500 * time.Millisecond

// New returns a Collector; it starts nothing. It follows changes from the start, and acts
// on them when it runs: a Run begins with all objects that have owners or wait for dependents.
func New(cfg Config) *Collector {
	c := &Collector{live: cfg.Live, logger: cfg.Logger, writable: cfg.Writable, unknown: cfg.Unknown, graph: newGraph()}
	if c.writable == nil {
		c.writable = func() error { return nil }
	}
	if c.unknown == nil {
		c.unknown = func(string) error { return nil }
	}
	return c
}

// Run collects until ctx ends, which is no error. It is called when verbs are served, and not again
// before it has returned: what it leaves is collected by the next Run.
func (c *Collector) Run(ctx context.Context, verbs Verbs) error {
	c.verbs = verbs
	c.graph.begin()
	defer c.graph.end()
	var wg sync.WaitGroup
	// They are Run's, and end with ctx.
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Go(func() { c.graph.requeue(ctx) })
	wg.Wait()
	return nil
}

// work handles one object after the other.
func (c *Collector) work(ctx context.Context) {
	for {
		c.awaitStore(ctx)
		v := c.graph.take()
		if v == nil {
			select {
			case <-c.graph.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			c.graph.again(v)
			return
		}
		c.end(ctx, v, c.handle(ctx, v))
	}
}

// end ends the turn of a vertex that was handled with err.
func (c *Collector) end(ctx context.Context, v *vertex, err error) {
	unknown, isUnknown := errors.AsType[*unknownKindError](err)
	switch {
	case err == nil:
		c.graph.done(v)
	case ctx.Err() != nil:
		c.graph.again(v)
	case isUnknown:
		c.logger.LogAttrs(ctx, slog.LevelDebug, "an owner is of a kind that is not served", slog.Any("err", err))
		c.graph.park(v)
		if c.live.Load() != unknown.catalog {
			c.graph.unpark() // the kind may be served since
		}
	case isReason(err, metav1.StatusReasonConflict):
		c.graph.fail(v) // the object was changed meanwhile
	case c.writable() != nil: // it is not about this object
		c.errors.Add(1)
		c.graph.again(v)
	default:
		c.errors.Add(1)
		c.logger.LogAttrs(ctx, slog.LevelWarn, "collect garbage: trying again later", slog.Any("err", err))
		c.graph.fail(v)
	}
}

// awaitStore blocks while the store refuses writes, and until ctx ends.
func (c *Collector) awaitStore(ctx context.Context) {
	for {
		err := c.writable()
		if err == nil {
			if c.refused.CompareAndSwap(true, false) {
				c.logger.LogAttrs(ctx, slog.LevelInfo, "collect garbage: going on, the store takes writes again")
			}
			return
		}
		if c.refused.CompareAndSwap(false, true) {
			c.logger.LogAttrs(ctx, slog.LevelWarn, "collect garbage: waiting until the store takes writes", slog.Any("err", err))
		}
		select {
		case <-time.After(storeRetry):
		case <-ctx.Done():
			return
		}
	}
}

// Stats are the figures of a Collector.
type Stats struct {
	Objects    int   // that have owners, are named as owners, or wait for dependents
	References int   // of all objects to owners
	Pending    int   // objects to handle now; 0 while nothing runs
	Failed     int   // objects that wait to be tried again; 0 while nothing runs
	Unknown    int   // objects that name an owner of a kind that is not served
	Deleted    int64 // deletions, ever
	Released   int64 // writes that removed owner references or finalizers, ever
	Errors     int64 // failures, ever; they are tried again
}

// Stats returns the current figures.
func (c *Collector) Stats() Stats {
	s := c.graph.stats()
	s.Deleted, s.Released, s.Errors = c.deleted.Load(), c.released.Load(), c.errors.Load()
	return s
}

// isReason reports whether err is a Status with a reason.
func isReason(err error, reason metav1.StatusReason) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Reason == reason
}
