package gapless

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/controllers/expiry"
	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/controllers/manager"
	"github.com/gapless-io/gapless/internal/controllers/protection"
	"github.com/gapless-io/gapless/internal/controllers/quota"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store/failing"
)

// The controllers that a Server can run, by their names in kube-controller-manager. In Config.Controllers they may also
// have the names garbagecollector, namespace, resourcequota, pvc-protection and pv-protection.
const (
	// GarbageCollectorController deletes objects whose owners are gone, and serves the
	// propagation policies Foreground and Orphan of deletions.
	GarbageCollectorController = "garbage-collector-controller"
	// NamespaceController deletes the content of namespaces under deletion.
	NamespaceController = "namespace-controller"
	// ResourceQuotaController keeps the status of ResourceQuotas: their limits, and what is used of them.
	ResourceQuotaController = "resourcequota-controller"
	// PersistentVolumeClaimProtectionController lets deleted claims go when no pod uses them, and keeps their conditions.
	PersistentVolumeClaimProtectionController = "persistentvolumeclaim-protection-controller"
	// PersistentVolumeProtectionController lets deleted volumes go when they are not bound.
	PersistentVolumeProtectionController = "persistentvolume-protection-controller"
	// VolumeAttributesClassProtectionController lets deleted VolumeAttributesClasses go when no claim or volume names them.
	VolumeAttributesClassProtectionController = "volumeattributesclass-protection-controller"
)

// Controllers returns the names of all controllers that a Server can run.
func Controllers() []string { return manager.Names() }

// EventExpiry is what deletes Events that Config.EventTTL no longer keeps, by its name in rules of
// faults. It is not one of Config.Controllers: upstream it is no controller either, but etcd.
const EventExpiry = "event-expiry"

// runs reports whether a controller is turned on.
func (c Config) runs(controller string) bool { return manager.Runs(c.Controllers, controller) }

// namespaceQuiet is how long the content of a deleted namespace stays after the last deletion in it.
// kubectl needs a few milliseconds from one object of a file to the next; upstream waits for 5 s in
// any case.
const namespaceQuiet = 500 * time.Millisecond

// background is what a server does by itself, once it serves. A nil member is turned off.
type background struct {
	garbage *gc.Collector
	objects *bootstrap.Controller
	upkeep  *bootstrap.Controller // of what kube-controller-manager maintains, if it is left to it
	events  *expiry.Expirer
	quotas  *quota.Controller
	storage *protection.Protection
}

// newRegistry makes the registry with the controllers that are turned on, and returns those
// that run beside it.
func (s *Server) newRegistry(live *kinds.Live) background {
	s.managed = s.newManaged()
	cfg := registry.Config{
		Store: s.store(s.backend.store), Stale: s.backend.stale, Live: live, Logger: s.cfg.Logger,
		KeepNamespaces: s.keepsNamespaces(),
		NamespaceQuiet: namespaceQuiet,
	}
	for _, apart := range s.backend.apart {
		apart.Store = s.store(apart.Store)
		cfg.Apart = append(cfg.Apart, apart)
	}
	if s.backend.turn != nil {
		cfg.Lead = s.backend.turn.Run
	}
	var b background
	if s.cfg.runs(GarbageCollectorController) {
		b.garbage = gc.New(gc.Config{
			Live: live, Logger: s.cfg.Logger, Writable: s.backend.log.Writable,
			Unknown: func(namespace string) error { return s.registry.Unknown(namespace) },
		})
		cfg.Collectors = append(cfg.Collectors, b.garbage)
	}
	s.admit(&cfg)
	s.allocate(&cfg)
	if s.cfg.runs(ResourceQuotaController) {
		b.quotas = quota.New(quota.Config{
			Live: live, Logger: s.cfg.Logger, Shared: s.cfg.Etcd.used(),
			Table: s.quotas.Table(), Classes: s.quotas.Classes(), Ledger: s.quotas.Ledger(),
		})
		cfg.Collectors = append(cfg.Collectors, b.quotas)
	}
	if slices.ContainsFunc(manager.Protectors(), s.cfg.runs) {
		b.storage = protection.New(protection.Config{Live: live, Logger: s.cfg.Logger, Writable: s.backend.log.Writable})
		cfg.Collectors = append(cfg.Collectors, b.storage)
	}
	s.aggregate(&cfg)
	s.registry = registry.New(cfg)
	s.cluster.Registry = s.registry
	if s.cfg.EventTTL > 0 && !s.cfg.Etcd.used() { // there they have leases, as those of kube-apiserver
		b.events = expiry.New(expiry.Config{
			Store: cfg.Store, WaitPublished: s.registry.WaitPublished, TTL: s.cfg.EventTTL, Logger: s.cfg.Logger,
		})
	}
	return b
}

// runBackground runs what there is from when the server serves.
func (s *Server) runBackground(ctx context.Context, g *errgroup.Group, b background) {
	s.runManaged(ctx, g)
	s.runWhenReady(ctx, g, s.leading(s.addresses.Run))
	if b.objects != nil {
		s.runWhenReady(ctx, g, s.leading(b.objects.Run))
	}
	if b.upkeep != nil {
		s.runWhenReady(ctx, g, s.leading(s.unmanaged(b.upkeep.Run)))
	}
	g.Go(func() error { return s.behind.Run(ctx) })
	s.runWhenReady(ctx, g, s.leading(s.behind.RunLeading))
	if b.garbage != nil {
		s.runController(ctx, g, GarbageCollectorController, func(ctx context.Context) error {
			return b.garbage.Run(ctx, s.registry)
		})
	}
	if b.quotas != nil {
		s.runController(ctx, g, ResourceQuotaController, func(ctx context.Context) error { return b.quotas.Run(ctx, s.registry) })
	}
	for name, c := range b.storage.Controllers() {
		if s.cfg.runs(name) {
			s.runController(ctx, g, name, func(ctx context.Context) error { return c.Run(ctx, s.registry) })
		}
	}
	if b.events != nil {
		s.runWhenReady(ctx, g, func(ctx context.Context) error { return b.events.Run(failing.By(ctx, EventExpiry)) })
	}
}

// runController runs a controller from when the server serves, on one replica, and while no kube-controller-manager does
// its work.
func (s *Server) runController(ctx context.Context, g *errgroup.Group, name string, work func(context.Context) error) {
	run := func(ctx context.Context) error { return work(failing.By(ctx, name)) }
	if s.cfg.leaves(name) {
		run = s.unmanaged(run)
	}
	s.runWhenReady(ctx, g, s.leading(run))
}

// leading returns what runs a controller while this replica is the one that does so. It is run as it is
// if there is only one server.
func (s *Server) leading(run func(context.Context) error) func(context.Context) error {
	turn := s.backend.turn
	if turn == nil {
		return run
	}
	return func(ctx context.Context) error {
		return turn.Run(ctx, run)
	}
}

// runWhenReady runs a controller from when the server serves.
func (s *Server) runWhenReady(ctx context.Context, g *errgroup.Group, run func(context.Context) error) {
	g.Go(func() error {
		select {
		case <-s.ready:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
}

// collectors are the metrics of a server besides those of HTTP.
func collectors(b background, always ...prometheus.Collector) []prometheus.Collector {
	if b.garbage != nil {
		always = append(always, serve.NewGarbage(b.garbage))
	}
	if b.events != nil {
		always = append(always, serve.NewExpiry(b.events))
	}
	return slices.Clip(always)
}
