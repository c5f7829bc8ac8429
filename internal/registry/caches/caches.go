// Package caches has the watch caches of all resources, which serve all reads.
//
// A [Resource] is one resource with its cache. A [Set] is the caches of all resources, with the
// clock that says up to which revision they are complete. The [Publisher] is the one goroutine
// that turns the store's stream of changes into cache entries, puts definitions in force, and
// then moves the clock. Nothing else appends to a cache or changes the set.
//
// publisher.go has how a write gets from the feed of the store into the caches, definitions.go
// how a CustomResourceDefinition takes effect, losing.go what is done with a value that cannot be read,
// and unreadable.go what readers see of it.
package caches

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Config configures a Set. All members but Window are required.
type Config struct {
	Store store.Store
	// Live holds the built-in resources at first. The publisher adds those of the
	// stored definitions, and keeps it up to date.
	Live   *kinds.Live
	Logger *slog.Logger
	// Shared says that others write to the store: a value that cannot be read concerns its resource only.
	// Otherwise, it is an error of Load and Run.
	Shared bool
	// Window bounds what each cache remembers; zeros are watchcache's defaults.
	Window watchcache.Config
}

// Set is the caches of all resources of a store. It is safe for concurrent use.
type Set struct {
	store  store.Store
	source *stored.Source
	live   *kinds.Live
	logger *slog.Logger
	window watchcache.Config
	shared bool

	clock     *watchcache.Clock                    // set before resources
	resources atomic.Pointer[map[string]*Resource] // by name; replaced, never changed
	// publishing is the context of the publisher: WaitPublished ends with it.
	publishing atomic.Pointer[context.Context]
}

// NewSet returns a set without caches; it reads nothing.
func NewSet(cfg Config) *Set {
	return &Set{
		store: cfg.Store, source: stored.NewSource(cfg.Store), live: cfg.Live, logger: cfg.Logger, window: cfg.Window,
		shared: cfg.Shared,
	}
}

// errInitializing is upstream's text for a server that has not read its storage.
const errInitializing = "storage is (re)initializing"

// All returns every resource by the text of its GroupResource, "configmaps" or
// "deployments.apps". The map is not to be changed. Error: 429 until Load is done.
func (s *Set) All() (map[string]*Resource, error) {
	all := s.resources.Load()
	if all == nil {
		return nil, wire.TooManyRequests(errInitializing, time.Second)
	}
	return *all, nil
}

// Lookup returns one resource, nil when there is none or Load is not done.
func (s *Set) Lookup(gr kinds.GroupResource) *Resource {
	all := s.resources.Load()
	if all == nil {
		return nil
	}
	return (*all)[gr.String()]
}

// Of returns the resource that a target is stored in. Errors: 429 until Load is done;
// 404 when the definition was deleted while the request was under way.
func (s *Set) Of(t kinds.Target) (*Resource, error) {
	all, err := s.All()
	if err != nil {
		return nil, err
	}
	if r := all[t.Resource.Home().GR().String()]; r != nil {
		return r, nil
	}
	return nil, wire.NotFound(t.Resource.GR(), t.Name)
}

// replace changes one entry of the table of resources; nil removes it.
func (s *Set) replace(name string, r *Resource) {
	all := maps.Clone(*s.resources.Load())
	if r == nil {
		delete(all, name)
	} else {
		all[name] = r
	}
	s.resources.Store(&all)
}

// Published returns the revision up to which every cache is complete. It is called
// after Load.
func (s *Set) Published() kube.ResourceVersion { return s.clock.Published() }

// WaitPublished blocks until every reader sees everything up to rv. It returns an
// error when ctx or the publisher ends first; a write that the caller waits for is
// stored all the same.
//
//nolint:contextcheck // the publisher's context is another one than the caller's
func (s *Set) WaitPublished(ctx context.Context, rv kube.ResourceVersion) error {
	if rv <= s.clock.Published() {
		return nil
	}
	publishing := *s.publishing.Load()
	err := s.clock.WaitWhilePublishing(ctx, rv, publishing.Done())
	if errors.Is(err, watchcache.ErrStopped) {
		return fmt.Errorf("wait for revision %d to become visible: %w", rv, context.Cause(publishing))
	}
	return err
}

// forgetAfter is how long the caches have what the store has compacted: a watch that was open then,
// and a moment behind, goes on.
const forgetAfter = 5 * time.Second

// forgetSoon drops from every cache what the store has compacted. Who asks for it does not get it
// any more (watchcache.History.Check), so that it would only take memory.
func (s *Set) forgetSoon(upTo int64) {
	time.AfterFunc(forgetAfter, func() {
		for _, r := range *s.resources.Load() {
			r.Cache.Forget(kube.ResourceVersion(upTo))
		}
	})
}

// Stats returns what each cache holds, by the names of All; nil until Load is done.
func (s *Set) Stats() map[string]watchcache.Stats {
	all := s.resources.Load()
	if all == nil {
		return nil
	}
	stats := make(map[string]watchcache.Stats, len(*all))
	for name, r := range *all {
		stats[name] = r.Cache.Stats()
	}
	return stats
}
