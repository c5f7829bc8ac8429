// Package registry has the verbs: what it means to create, update, patch, delete,
// read and watch an object. It is the only translator between stored bytes and
// objects.
//
// A [Registry] is the verbs over one store, and a [Reader] the verbs that read
// collections, which is all that a mirror has. What readers see is in package caches;
// what namespaces and definitions demand of their content is in package lifecycle.
//
// A write answers only after the publisher has made it visible to every reader,
// so that a client reads what it wrote. prepareCreate and prepareUpdate are the lists of
// its steps; patches, applied configurations, writes of subresources and evictions are
// updates, and a deletion (prepareDelete) has the steps that it needs:
//
//	decode         the body becomes a tree, or changes the tree of the current object
//	begin          what the endpoint cannot change is as it was; defaults
//	manage fields  metadata.managedFields says who has set what
//	mutate         plugins may change the object (webhooks and policies)
//	restrict       they can change no more than the client
//	finish         what the server makes of it: the generation, what its kind fills in
//	allocate       what no other object of the resource may have (addresses)
//	check          the rules of the kind
//	validate       plugins may refuse it
//	encode         the bytes to store; before that the hook of a resource settles the object,
//	               which takes turns with others of its kind (definitions)
//	charge         quotas of its namespace have room for it; it is given back if the commit fails
//	commit         the store takes them if the object is still the one that was found
//
// A write that finds, when it commits, that another one was faster takes the steps again
// (retry.go). It stops between the steps when its client has left: nobody waits for the
// answer, and others may wait for the processor.
//
// apply.go has server-side apply; subresource.go subresources besides status and scale;
// converted.go the verbs, and converting.go the watches, of converted resources; warnings.go
// the order of warnings.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/convert"
	"github.com/gapless-io/gapless/internal/registry/fieldmanager"
	"github.com/gapless-io/gapless/internal/registry/keylock"
	"github.com/gapless-io/gapless/internal/registry/lifecycle"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// Apart is a store of some built-in resources: see caches.Apart.
type Apart = caches.Apart

// Config configures a Registry. Store and Live are required.
type Config struct {
	Store store.Store
	// Apart are the stores of built-in resources that are not in Store, each with revisions of its own.
	Apart []Apart
	// Live holds the built-in resources at first. The registry adds those of the
	// stored CustomResourceDefinitions, and keeps it up to date.
	Live   *kinds.Live
	Logger *slog.Logger
	// CacheEntries and CacheBytes bound the log that each resource has in memory;
	// 0 is watchcache's default. Older entries are read from the store.
	CacheEntries int
	CacheBytes   int64
	// Collectors follow all changes: one collects garbage, unless that is left to another program. Deletions wait for
	// either, if their policy is Foreground or Orphan.
	Collectors []Collector
	// Charger charges the writes of clients that Admission has allowed; nil: nobody does.
	Charger admission.Charger
	// Admission is asked about the writes of clients; nil: nobody is.
	Admission admission.Plugin
	// ProvisionNamespaces makes the namespace of an object that a client creates, if there is none (upstream's plugin
	// NamespaceAutoProvision).
	ProvisionNamespaces bool
	// Followers keep what they need of some resources in memory.
	Followers []Follower
	// Allocators are those of the built-in resources that have one.
	Allocators map[kinds.GroupResource]Allocator
	// KeepNamespaces says whether the content of namespaces under deletion, and their finalizer, is left to another
	// program now; nil: it never is. LookAtNamespaces is called when that ends.
	KeepNamespaces func() bool
	// NamespaceQuiet is for how long nothing must have been deleted in a namespace under deletion
	// before its content goes; 0: it goes at once. A client that deletes a manifest with a
	// namespace in it finds the objects then.
	NamespaceQuiet time.Duration
	// Elsewhere is other servers that have objects in namespaces, which are deleted with those; nil: there are none.
	Elsewhere lifecycle.Elsewhere
	// Stale says whether the stored form of an object at a revision is another one than a write
	// would give it now, because the keys of the store's encryption have changed: then an
	// update that changes nothing is written all the same. Nil: it never is.
	Stale func(ctx context.Context, key string, revision int64) (bool, error)
	// Lead runs work whenever this server is the one of several over the same store that deletes the
	// content of namespaces and definitions, with a context that ends with that; it returns when ctx
	// ends, or work fails. The content stays for 5 s then, in which the others see the deletion. Nil:
	// there are no others.
	Lead func(ctx context.Context, work func(context.Context) error) error
}

// Registry serves the verbs of every resource of a store. It is safe for
// concurrent use. Until Run has loaded the store every verb answers 429.
type Registry struct {
	*Reader

	live   *kinds.Live
	logger *slog.Logger

	caches      *caches.Set
	gate        *lifecycle.Gate // of namespaces and definitions
	definitions *lifecycle.Definitions
	hooks       map[kinds.GroupResource]hook
	controller  *lifecycle.Controller
	converter   *convert.Converter
	fields      *fieldmanager.Managers
	collectors  []Collector
	plugins     admission.Plugin  // that are asked about writes; nil: none
	charger     admission.Charger // of writes that plugins have allowed; nil: none
	provisions  bool              // Config.ProvisionNamespaces
	followers   map[kinds.GroupResource][]Follower
	allocators  map[kinds.GroupResource]Allocator
	conflicts   keylock.Locks // of writes that were slower than another one
	// stale is Config.Stale.
	stale func(ctx context.Context, key string, revision int64) (bool, error)
	// lead is Config.Lead.
	lead func(ctx context.Context, work func(context.Context) error) error

	started atomic.Bool
	decided chan struct{} // closed when Run serves, or has ended before it could

	// mu guards problem, and closing decided.
	mu      sync.Mutex
	problem error // why the registry is not ready; nil when it is
}

// errLoading is what Ready says until everything was read.
var errLoading = errors.New("the store has not been loaded yet")

// errStarted is returned by the second Run.
var errStarted = errors.New("the registry was run before")

// New returns a registry; it starts no goroutine and reads nothing.
func New(cfg Config) *Registry {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	shared := cfg.Lead != nil
	if !shared {
		cfg.Lead = func(ctx context.Context, work func(context.Context) error) error { return work(ctx) }
	}
	set := caches.NewSet(caches.Config{
		Store: cfg.Store, Apart: cfg.Apart, Live: cfg.Live, Logger: cfg.Logger, Shared: shared,
		Window: watchcache.Config{MaxEntries: cfg.CacheEntries, MaxBytes: cfg.CacheBytes},
	})
	converter := convert.New(set)
	definitions := lifecycle.NewDefinitions(cfg.Live)
	r := &Registry{
		Reader: &Reader{of: set.Of, live: cfg.Live, converter: converter},
		live:   cfg.Live, logger: cfg.Logger,
		caches: set, gate: lifecycle.NewGate(set), definitions: definitions,
		hooks: map[kinds.GroupResource]hook{kinds.Definitions(): definitions},
		stale: cfg.Stale, lead: cfg.Lead, converter: converter, fields: fieldmanager.New(cfg.Live, converter.Raw),
		collectors: cfg.Collectors, charger: cfg.Charger,
		plugins: cfg.Admission, provisions: cfg.ProvisionNamespaces, followers: followersOf(cfg.Followers),
		allocators: cfg.Allocators, decided: make(chan struct{}), problem: errLoading,
	}
	if r.plugins != nil {
		r.plugins = decidedBy(r.plugins, set, r.followers)
	}
	r.controller = lifecycle.NewController(lifecycle.Config{
		Caches: set, Live: cfg.Live, Gate: r.gate, Verbs: lifecycleVerbs{r}, Logger: cfg.Logger,
		KeepNamespaces: cfg.KeepNamespaces, Quiet: cfg.NamespaceQuiet, Shared: shared,
		Elsewhere: cfg.Elsewhere,
	})
	return r
}

// Run loads the store, makes the namespaces that always exist, and publishes what
// is written until ctx ends, which is no error. Any error means that readers may
// miss changes from now on: a value that cannot be read, a feed that broke. With Config.Lead, others write to
// the store, and a value that cannot be read is no error: its resource cannot be listed and watched until it is
// replaced, or can be read. The store must be running. Run is called once.
func (r *Registry) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return errStarted
	}
	parent := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer r.converter.Close()
	err := r.run(ctx, end)
	if parent.Err() != nil {
		r.report(fmt.Errorf("the registry has stopped: %w", context.Cause(parent)))
		return nil
	}
	r.report(err)
	return err
}

func (r *Registry) run(ctx context.Context, end context.CancelCauseFunc) error {
	began := time.Now()
	publishers, err := r.caches.Load(ctx)
	if err != nil {
		return fmt.Errorf("load the store: %w", err)
	}
	defer func() { _ = publishers.Close() }() // they hold no more than their positions
	r.loadFollowers()
	var wg sync.WaitGroup
	// Both goroutines are Run's, and end with ctx. The first one that fails ends it.
	wg.Go(func() {
		err := publishers.Run(ctx, follower{r})
		if ctx.Err() == nil {
			r.report(err) // before the others have ended
		}
		end(err)
	})
	if err := r.createNamespaces(ctx); err != nil {
		end(fmt.Errorf("create the first namespaces: %w", err))
	} else {
		r.report(nil)
		r.logger.LogAttrs(ctx, slog.LevelInfo, "registry is ready",
			slog.Int("resources", len(r.Stats())), slog.Int64("rv", int64(r.caches.Published())),
			slog.Int64("took_ms", time.Since(began).Milliseconds()))
		wg.Go(func() {
			if err := r.lead(ctx, r.controller.Run); err != nil {
				end(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// LookAtNamespaces lets the registry look for namespaces under deletion, because Config.KeepNamespaces has changed. It
// does not block.
func (r *Registry) LookAtNamespaces() { r.controller.Wake() }

// startRetry is the time between two attempts of a start to write while the store refuses writes for the moment.
const startRetry = time.Second

// createNamespaces creates the namespaces that always exist. It waits while the store refuses writes for the
// moment, or does not say what has become of one.
func (r *Registry) createNamespaces(ctx context.Context) error {
	for {
		err := r.controller.CreateNamespaces(ctx)
		if _, refused := errors.AsType[*store.UnavailableError](err); !refused && !errors.Is(err, store.ErrOutcomeUnknown) {
			return err
		}
		r.logger.LogAttrs(ctx, slog.LevelWarn, "the start waits until the store takes writes", slog.Any("err", err))
		select {
		case <-time.After(startRetry):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// report sets what Ready says.
func (r *Registry) report(problem error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = problem
	select {
	case <-r.decided:
	default:
		close(r.decided)
	}
}

// Ready returns nil when every verb is served, otherwise why not.
func (r *Registry) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// Alive is Ready, but for a registry that has not loaded its store yet, which is nil: that may take long, and
// beginning again does not make it shorter.
func (r *Registry) Alive() error {
	if err := r.Ready(); !errors.Is(err, errLoading) {
		return err
	}
	return nil
}

// WaitReady blocks until Run serves, or has ended before it could: then it returns
// why. It returns ctx's cause when ctx ends first.
func (r *Registry) WaitReady(ctx context.Context) error {
	select {
	case <-r.decided:
		return r.Ready()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WaitPublished blocks until every reader sees everything up to a revision of Config.Store, or returns ctx's
// cause.
func (r *Registry) WaitPublished(ctx context.Context, rv kube.ResourceVersion) error {
	return r.caches.WaitPublished(ctx, rv)
}

// Compact removes history and returns up to which resourceVersion of Config.Store; see caches.Set.Compact for the other
// stores. It first waits until everything that may be removed was published. Errors are those of
// wire.StatusOf: 400 for an empty compaction, 504 for a revision of the future.
func (r *Registry) Compact(ctx context.Context, c store.Compaction) (kube.ResourceVersion, error) {
	if _, err := r.caches.All(); err != nil {
		return 0, err
	}
	upTo, err := r.caches.Compact(ctx, c)
	if err != nil {
		return 0, stored.Failure(err)
	}
	r.logger.LogAttrs(ctx, slog.LevelInfo, "history was compacted", slog.Int64("rv", upTo))
	return kube.ResourceVersion(upTo), nil
}

// Unreadable returns the objects whose latest values in the store cannot be read, in the order of their
// resources and keys. Their resources are not listed and watched.
func (r *Registry) Unreadable() []caches.Unreadable { return r.caches.Unreadable() }

// Unknown returns an error that names an object of which nothing is known, because its value cannot be read:
// in one namespace or without one, or ("") in any; nil if there is none.
func (r *Registry) Unknown(namespace string) error { return r.caches.Unknown(namespace) }

// UnknownOf is Unknown for the objects of one resource: name is "" for all of the namespace. Who finds nothing with
// Find or Objects cannot know without it that there is nothing.
func (r *Registry) UnknownOf(gr kinds.GroupResource, namespace, name string) error {
	return r.caches.UnknownOf(gr, namespace, name)
}

// Stats returns what each resource's cache holds, by "configmaps" or
// "deployments.apps"; nil until the store was loaded.
func (r *Registry) Stats() map[string]watchcache.Stats { return r.caches.Stats() }

// Reached returns up to which resourceVersion each resource is known, by the names of Stats.
func (r *Registry) Reached() map[string]kube.ResourceVersion {
	all := map[string]kube.ResourceVersion{}
	for name, stats := range r.Stats() {
		all[name] = stats.RV
	}
	return all
}

// Behind returns how many changes of a resource after a resourceVersion are in memory.
func (r *Registry) Behind(gr kinds.GroupResource, rv kube.ResourceVersion) int {
	cached := r.caches.Lookup(gr)
	if cached == nil {
		return 0
	}
	return cached.Cache.Behind(rv)
}
