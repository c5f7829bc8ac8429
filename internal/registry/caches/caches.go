// Package caches has the watch caches of all resources, which serve all reads.
//
// A [Resource] is one resource with its cache. A [Set] is the caches of all resources, with the
// clock that says up to which revision they are complete. The [Publisher] is the one goroutine
// that turns the store's stream of changes into cache entries, puts definitions in force, and
// then moves the clock. Nothing else appends to a cache or changes the set.
//
// Some built-in resources may be in another store than the rest ([Apart]). Each store has a clock and
// a publisher of its own, because revisions of two stores cannot be compared.
//
// publisher.go has how a write gets from the feed of the store into the caches, definitions.go
// how a CustomResourceDefinition takes effect, sequence.go what each store has, losing.go what is done with a
// value that cannot be read, and unreadable.go what readers see of it.
package caches

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Config configures a Set. All members but Apart and Window are required.
type Config struct {
	Store store.Store
	// Apart are the stores of built-in resources that are not in Store.
	Apart []Apart
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

// Set is the caches of all resources. It is safe for concurrent use.
type Set struct {
	live   *kinds.Live
	logger *slog.Logger
	window watchcache.Config
	shared bool

	main      *sequence                            // of all resources that no other one has, definitions among them
	apart     []*sequence                          // the others
	resources atomic.Pointer[map[string]*Resource] // by name; replaced, never changed
	mu        sync.Mutex                           // held by who replaces it
}

// NewSet returns a set without caches; it reads nothing.
func NewSet(cfg Config) *Set {
	s := &Set{live: cfg.Live, logger: cfg.Logger, window: cfg.Window, shared: cfg.Shared}
	s.main = newSequence(s, Apart{Store: cfg.Store})
	for _, a := range cfg.Apart {
		s.apart = append(s.apart, newSequence(s, a))
	}
	return s
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
func (s *Set) Lookup(gr kinds.GroupResource) *Resource { return s.Named(gr.String()) }

// Named is Lookup by the text of a kinds.GroupResource, which takes memory to make.
func (s *Set) Named(resource string) *Resource {
	all := s.resources.Load()
	if all == nil {
		return nil
	}
	return (*all)[resource]
}

// Of returns the resource that a target is stored in. Errors: 429 until Load is done; 503 while
// the resource's own store was not read yet; 404 when the definition was deleted while the request was
// under way.
func (s *Set) Of(t kinds.Target) (*Resource, error) {
	home := t.Resource.Home().GR()
	unread := s.Unread(home) // before the table is read: its store counts as read only when it has its resources
	all, err := s.All()
	if err != nil {
		return nil, err
	}
	if r := all[home.String()]; r != nil {
		return r, nil
	}
	if unread != nil {
		return nil, unread
	}
	return nil, wire.NotFound(t.Resource.GR(), t.Name)
}

// replace changes one entry of the table of resources; nil removes it.
func (s *Set) replace(name string, r *Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.resources.Load())
	if r == nil {
		delete(all, name)
	} else {
		all[name] = r
	}
	s.resources.Store(&all)
}

// Published returns the revision of Config.Store up to which every cache of its resources is complete.
// It is called after Load.
func (s *Set) Published() kube.ResourceVersion { return s.main.clock.Published() }

// WaitPublished blocks until every reader sees everything up to a revision of Config.Store. Errors:
// those of Resource.WaitPublished.
func (s *Set) WaitPublished(ctx context.Context, rv kube.ResourceVersion) error {
	return s.main.waitPublished(ctx, rv)
}

// Compact removes history, after everything that may be removed was published, and returns up to which
// revision of Config.Store. Stores of Apart are compacted by age only: the revision of a compaction is
// none of theirs. Errors: those of the stores.
func (s *Set) Compact(ctx context.Context, c store.Compaction) (int64, error) {
	upTo, err := s.main.compact(ctx, c)
	if err != nil || c.UpTo != 0 {
		return upTo, err
	}
	for _, q := range s.apart {
		if _, err := q.compact(ctx, c); err != nil {
			return upTo, fmt.Errorf("compact the history of %s: %w", q, err)
		}
	}
	return upTo, nil
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
