// Package registry has the verbs: what it means to create, update, patch, delete,
// read and watch an object. It is the only translator between stored bytes and
// objects.
//
// It has six nouns. A [Registry] is the verbs over one store. A kind is one
// resource with its cache. The publisher is the one goroutine that turns the
// store's feed into cache entries, and then moves the clock. A write is one
// decision on the current state of a key, made again when the state has moved. A
// watch is the state followed by a cursor. The emptier deletes what is in a
// terminating namespace, or of a terminating definition.
//
// A write answers only after the publisher has made it visible to every reader,
// so that whoever was answered reads what it wrote.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// Config says what a Registry is made of. Store and Live are required.
type Config struct {
	Store store.Store
	// Live holds the built-in resources at first. The registry adds those of the
	// stored CustomResourceDefinitions, and keeps it up to date.
	Live   *schema.Live
	Logger *slog.Logger
	// CacheEntries and CacheBytes bound the log that each resource has in memory;
	// 0 is watchcache's default. Readers go to the store for what is older.
	CacheEntries int
	CacheBytes   int64
	// StrictFutureWatch ends a watch after a resourceVersion of the future with
	// *kube.TooLargeResourceVersionError when it has not come within 3 s. Otherwise
	// such a watch waits in silence, as upstream's does.
	StrictFutureWatch bool
}

// Registry serves the verbs of every resource of a store. It is safe for
// concurrent use. Until Run has loaded the store every verb answers 429.
type Registry struct {
	store  store.Store
	live   *schema.Live
	logger *slog.Logger
	window watchcache.Config // the bounds for new caches
	strict bool              // Config.StrictFutureWatch

	clock   *watchcache.Clock
	kinds   atomic.Pointer[map[string]*kind] // by resource name; replaced, never changed
	life    atomic.Pointer[life]
	started atomic.Bool

	creations   gate
	definitions chan struct{} // holds one token: whoever sent it writes a definition
	emptying    emptying

	settled chan struct{} // closed when it is known whether Run came so far as to serve

	// mu guards problem and settled's closing.
	mu      sync.Mutex
	problem error // why the registry is not ready; nil when it is
}

// errLoading is what Ready says until everything was read.
var errLoading = errors.New("the store has not been loaded yet")

// errStarted is returned by the second Run.
var errStarted = errors.New("the registry was run before")

// New returns a registry; it starts no goroutine and reads nothing.
func New(cfg Config) *Registry {
	r := &Registry{
		store: cfg.Store, live: cfg.Live, logger: cfg.Logger,
		window:      watchcache.Config{MaxEntries: cfg.CacheEntries, MaxBytes: cfg.CacheBytes},
		strict:      cfg.StrictFutureWatch,
		definitions: make(chan struct{}, 1),
		emptying:    emptying{wake: make(chan struct{}, 1)},
		settled:     make(chan struct{}),
		problem:     errLoading,
	}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	return r
}

// Run loads the store, makes the namespaces that always exist, and publishes what
// is written until ctx ends, which is no error. Any error means that readers may
// miss changes from now on: a value that cannot be read, a feed that broke. The
// store must be running. Run is called once.
func (r *Registry) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return errStarted
	}
	parent := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	err := r.run(ctx, end)
	if parent.Err() != nil {
		r.report(fmt.Errorf("the registry has stopped: %w", context.Cause(parent)))
		return nil
	}
	r.report(err)
	return err
}

func (r *Registry) run(ctx context.Context, end context.CancelCauseFunc) error {
	r.life.Store(lifeOf(ctx))
	began := time.Now()
	p, err := r.load(ctx)
	if err != nil {
		return fmt.Errorf("load the store: %w", err)
	}
	defer func() { _ = p.feed.Close() }() // it holds no more than its position
	var wg sync.WaitGroup
	// Both goroutines are Run's, and end with ctx. The first one that fails ends it.
	wg.Go(func() { end(p.run(ctx)) })
	if err := r.makeNamespaces(ctx); err != nil {
		end(fmt.Errorf("make the first namespaces: %w", err))
	} else {
		r.report(nil)
		r.logger.LogAttrs(ctx, slog.LevelInfo, "registry is ready",
			slog.Int("resources", len(*r.kinds.Load())), slog.Int64("rv", int64(r.clock.Published())),
			slog.Int64("took_ms", time.Since(began).Milliseconds()))
		wg.Go(func() { r.empty(ctx) })
	}
	wg.Wait()
	return context.Cause(ctx)
}

// report sets what Ready says.
func (r *Registry) report(problem error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = problem
	select {
	case <-r.settled:
	default:
		close(r.settled)
	}
}

// Ready returns nil when every verb is served, otherwise why not.
func (r *Registry) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// WaitReady blocks until Run serves, or has ended before it could: then it returns
// why. It returns ctx's cause when ctx ends first.
func (r *Registry) WaitReady(ctx context.Context) error {
	select {
	case <-r.settled:
		return r.Ready()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Compact forgets history and returns up to where. It first waits until
// everything that may be forgotten was published. Errors are those of
// kube.StatusOf: 400 for a compaction that says nothing, 504 for the future.
func (r *Registry) Compact(ctx context.Context, c store.Compaction) (kube.ResourceVersion, error) {
	if _, err := r.loaded(); err != nil {
		return 0, err
	}
	progress, err := r.store.Progress(ctx)
	if err != nil {
		return 0, storeError(err)
	}
	if c.UpTo > progress {
		return 0, storeError(&store.FutureRevisionError{Requested: c.UpTo, Current: progress})
	}
	if err := r.published(ctx, kube.ResourceVersion(progress)); err != nil {
		return 0, err
	}
	// What comes later may be old enough and not published yet: the feed needs it.
	c.NotAfter = progress
	upTo, err := r.store.Compact(ctx, c)
	if err != nil {
		return 0, storeError(err)
	}
	for _, k := range *r.kinds.Load() {
		k.cache.Forget(kube.ResourceVersion(upTo))
	}
	r.logger.LogAttrs(ctx, slog.LevelInfo, "history was forgotten", slog.Int64("rv", upTo))
	return kube.ResourceVersion(upTo), nil
}

// Stats returns what each resource's cache holds, by "configmaps" or
// "deployments.apps"; nil until the store was loaded.
func (r *Registry) Stats() map[string]watchcache.Stats {
	kinds := r.kinds.Load()
	if kinds == nil {
		return nil
	}
	stats := make(map[string]watchcache.Stats, len(*kinds))
	for name, k := range *kinds {
		stats[name] = k.cache.Stats()
	}
	return stats
}

// life is how long Run lasts, for those who wait for what it does.
type life struct {
	// after calls f when Run ends, unless stop is called before.
	after func(f func()) (stop func() bool)
	over  func() error // nil while Run runs, then why it does not
}

func lifeOf(ctx context.Context) *life {
	return &life{
		after: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
		over:  func() error { return context.Cause(ctx) },
	}
}

// published waits until everything up to rv is visible to every reader. When Run
// ends first the write that the caller waits for is stored all the same.
func (r *Registry) published(ctx context.Context, rv kube.ResourceVersion) error {
	if rv <= r.clock.Published() {
		return nil
	}
	l := r.life.Load()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := l.after(func() { cancel(fmt.Errorf("wait for revision %d to become visible: %w", rv, l.over())) })
	defer stop()
	return r.clock.WaitPublished(ctx, rv)
}
