package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
)

// collection is one resource of upstream, in one version, while it is mirrored.
type collection struct {
	relay    *Relay
	resource *kinds.Resource
	name     string
	logger   *slog.Logger

	// current is what readers read; nil until there is a state to show.
	current atomic.Pointer[history]
	reads   atomic.Pointer[informer.Informer[*item]] // nil until the mirror was loaded
	ready   chan struct{}                            // closed when current was set, or the collection has ended
	gone    chan struct{}                            // closed when the next reader gets another collection

	readers atomic.Int64
	used    atomic.Int64 // when the last reader came or left, in Unix nanoseconds

	fresh *freshness

	// mu guards problem.
	mu      sync.Mutex
	problem error // why the collection is not mirrored; nil while it is
	readied sync.Once

	// stop is closed, after why was set, to end run.
	ending sync.Once
	stop   chan struct{}
	why    error

	// The goroutine of run owns what follows.
	writing   *history // what is written to; current once it has a state of upstream
	texts     *texts.Set
	restoring bool
	refused   time.Time // when upstream began to refuse the relay; zero: it did not
}

// cancel ends run, which returns why.
func (c *collection) cancel(why error) {
	c.ending.Do(func() {
		c.why = why
		close(c.stop)
	})
}

// history is a collection under one history of upstream.
type history struct {
	log    *mirror.Collection
	cached *caches.Resource
	reader *registry.Reader // of cached, by positions
	clock  *watchcache.Clock
	proven atomic.Pointer[proof] // nil: there was none
	number uint64                // of the histories of this process, from 1
	// replaced is set when another history has taken its place.
	replaced atomic.Bool
}

// errIdle ends the mirror of a resource that nobody reads.
var errIdle = errors.New("nobody reads the resource")

func newCollection(r *Relay, resource *kinds.Resource) *collection {
	c := &collection{
		relay: r, resource: resource, name: name(resource), ready: make(chan struct{}), gone: make(chan struct{}),
		stop: make(chan struct{}), texts: texts.New(),
		logger: r.logger.With(slog.String("resource", name(resource))),
	}
	c.fresh = newFreshness(c)
	if !r.wanted(resource) { // who configures it wants it read
		c.fresh.account.spend(opening)
	}
	c.touch()
	return c
}

func (c *collection) touch() { c.used.Store(time.Now().UnixNano()) }

// enter counts a reader until leave is called.
func (c *collection) enter() (leave func()) {
	c.readers.Add(1)
	c.touch()
	return sync.OnceFunc(func() {
		c.touch()
		c.readers.Add(-1)
	})
}

// idle reports whether nobody has read the collection for a time.
func (c *collection) idle(longer time.Duration) bool {
	return c.readers.Load() == 0 && time.Since(time.Unix(0, c.used.Load())) > longer
}

// run mirrors the collection until ctx ends, nobody reads it, or it cannot be mirrored. It
// returns why it ended.
func (c *collection) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer c.setReady()
	go func() { // it ends with ctx, which ends with this call
		select {
		case <-c.stop:
			end(c.why)
		case <-ctx.Done():
		}
	}()
	var beside sync.WaitGroup
	beside.Go(func() { c.proving(ctx) })      // it ends with ctx
	beside.Go(func() { c.fresh.asking(ctx) }) // as above
	defer func() {
		end(nil)
		beside.Wait()
	}()
	log, err := c.relay.mirror.Collection(ctx, c.name)
	if err != nil {
		return err
	}
	c.writing = c.historyOf(log)
	defer func() { c.relay.mirror.Release(c.writing.log) }() // another one after a rewrite
	restored, err := c.load(ctx)
	if errors.Is(err, mirror.ErrSealed) {
		c.logger.WarnContext(ctx, "the history of the resource is encrypted with another key: it begins anew")
		if log, err = c.relay.mirror.Rewrite(ctx, log); err != nil {
			return err
		}
		c.writing = c.historyOf(log)
		restored, err = c.load(ctx)
	}
	if err != nil {
		return err
	}
	// A list costs kube-apiserver half of the CPU of a streaming list, which spares it memory when many
	// list at once: the relay is one, and seldom lists.
	reads := informer.New(
		informer.Decoded(c.relay.cfg.Upstream, c.resource.GVR(), decoder(c.resource.Fields, c.texts)),
		informer.Logger(c.logger), informer.OnError(c.incident), informer.Backoff(retryLeast, retryMost),
		informer.NoStreamingLists(),
		informer.Metrics(c.recorded),
	)
	reads.Mirror(func(u informer.Update[*item]) {
		if c.restoring {
			return
		}
		if err := c.update(ctx, u); err != nil {
			c.cancel(err)
		}
	})
	c.reads.Store(reads)
	if restored.RV != "" {
		c.restoring = true
		reads.Restore(restored)
		c.restoring = false
	}
	err = reads.Run(ctx)
	c.end()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// retryLeast and retryMost are the pauses after a failure of upstream. One informer reads each
// resource for all clients, whose caches are to be right soon after upstream is back.
const (
	retryLeast = 100 * time.Millisecond
	retryMost  = time.Second
)

// historyOf returns a history without a state.
func (c *collection) historyOf(log *mirror.Collection) *history {
	clock := watchcache.NewClock(0)
	stored := c.relay.source.Named(log.Key(), c.resource.GR(), c.resource.Fields)
	cached := caches.Mirrored(stored, watchcache.Config{Clock: clock})
	return &history{
		log: log, clock: clock, number: c.relay.histories.Add(1), cached: cached,
		reader: registry.NewMirrorReader(func(kinds.Target) (*caches.Resource, error) { return cached, nil }),
	}
}

// load fills the watch cache with what the log has, and returns it for the reflector. Readers
// get it at once: it is a state that upstream had.
func (c *collection) load(ctx context.Context) (informer.Restored[*item], error) {
	h := c.writing
	at, err := c.relay.mirror.Store().Progress(ctx)
	if err != nil {
		return informer.Restored[*item]{}, err
	}
	objects, err := h.cached.Load(ctx, at)
	if err != nil {
		return informer.Restored[*item]{}, err
	}
	position := h.log.Newest()
	if h.log.Torn() {
		position = at
	}
	h.cached.Cache.Load(objects, kube.ResourceVersion(position)) //nolint:gosec // positions are not negative
	h.clock.Publish(kube.ResourceVersion(position))              //nolint:gosec // as above
	reached := h.log.Reached()
	if reached == 0 {
		return informer.Restored[*item]{}, nil
	}
	items := make([]*item, len(objects))
	for i, o := range objects {
		items[i] = newItem(o)
	}
	if !h.log.Torn() {
		c.show(h)
	}
	return informer.Restored[*item]{Objects: items, RV: reached.String(), Incomplete: h.log.Torn()}, nil
}

// show makes a history the one that readers read.
func (c *collection) show(h *history) {
	if was := c.current.Swap(h); was != nil && was != h {
		was.retire()
	}
	c.setReady()
}

// retire ends what reads a history.
func (h *history) retire() {
	h.replaced.Store(true)
	h.cached.Cache.End(kube.ResourceVersion(h.log.Newest())) //nolint:gosec // positions are not negative
}

func (c *collection) setReady() {
	c.readied.Do(func() {
		close(c.ready)
		c.relay.nudge() // Ready may be true now
	})
}

// end ends what reads the collection: its streams end as by their timeout, and clients that come
// back start it again.
func (c *collection) end() {
	if h := c.current.Swap(nil); h != nil {
		h.cached.Cache.End(kube.ResourceVersion(h.log.Newest())) //nolint:gosec // positions are not negative
	}
}

// wait blocks until there is a state to show, and returns it. Errors: why there is none, ctx's
// cause.
func (c *collection) wait(ctx context.Context) (*history, error) {
	if h := c.current.Load(); h != nil {
		return h, nil
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h := c.current.Load(); h != nil {
		return h, nil
	}
	return nil, c.failed(errors.New("the resource is no longer mirrored"))
}

// failed returns why the collection is not mirrored.
func (c *collection) failed(otherwise error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem != nil {
		return c.problem
	}
	return otherwise
}

// recorded is called with the informer's metrics. A watch that begins may be another upstream's, also
// where nothing has failed: one that was cut between two events has ended like any other.
func (c *collection) recorded(s informer.Sample) {
	if s.Metric == informer.MetricWatches {
		c.relay.tables.doubt()
	}
}

// incident is called with what goes wrong with upstream. An object that cannot be read makes
// it impossible to say what upstream has, and so does a list that the relay may not make.
func (c *collection) incident(in informer.Incident) {
	c.relay.metrics.incident(c, in)
	c.relay.tables.doubt()
	switch {
	case in.Kind == informer.Undecodable:
		c.cancel(&unmirrored{fmt.Errorf("%s at resourceVersion %q cannot be read: %w", in.Key, in.RV, in.Err)})
	case apierrors.IsNotFound(in.Err):
		c.relay.doubt(c.resource)
		c.relay.Refresh()
	case apierrors.IsMethodNotSupported(in.Err), apierrors.IsNotAcceptable(in.Err),
		(apierrors.IsForbidden(in.Err) || apierrors.IsUnauthorized(in.Err)) && c.refusedForGood(time.Now()):
		c.cancel(&unmirrored{fmt.Errorf("upstream refuses the relay: %w", in.Err)})
	}
}

// refusedWithin is how long upstream may refuse the relay before the mirror ends. kube-apiserver
// refuses everybody for a moment after its start, before it has read the roles.
const refusedWithin = 30 * time.Second

// refusedForGood reports whether upstream, which refuses the relay now, has done so for too long:
// since it last answered, or, if it never did and there is nothing to show, at once.
func (c *collection) refusedForGood(now time.Time) bool {
	if c.current.Load() == nil {
		return true
	}
	reads := c.reads.Load()
	if reads == nil || c.refused.IsZero() || reads.Status().LastContact.After(c.refused) {
		c.refused = now
	}
	return now.Sub(c.refused) >= refusedWithin
}

// unmirrored says that a resource cannot be mirrored, because of what upstream sent.
type unmirrored struct{ cause error }

func (e *unmirrored) Error() string { return e.cause.Error() }
func (e *unmirrored) Unwrap() error { return e.cause }

// of is the collection at upstream.
func (c *collection) of() client.Collection {
	return client.Collection{GroupVersionResource: c.resource.GVR()}
}
