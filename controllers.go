package gapless

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/controllers/expiry"
	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/controllers/quota"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store/failing"
)

// The controllers that a Server can run, by their names in kube-controller-manager. In
// Config.Controllers they may also have the names garbagecollector, namespace and resourcequota.
const (
	// GarbageCollectorController deletes objects whose owners are gone, and serves the
	// propagation policies Foreground and Orphan of deletions.
	GarbageCollectorController = "garbage-collector-controller"
	// NamespaceController deletes the content of namespaces under deletion.
	NamespaceController = "namespace-controller"
	// ResourceQuotaController keeps the status of ResourceQuotas: their limits, and what is used of them.
	ResourceQuotaController = "resourcequota-controller"
)

// EventExpiry is what deletes Events that Config.EventTTL no longer keeps, by its name in rules of
// faults. It is not one of Config.Controllers: upstream it is no controller either, but etcd.
const EventExpiry = "event-expiry"

// controllerAlias is another name of a controller (kubernetes
// cmd/kube-controller-manager/names KCMControllerAliases).
func controllerAlias(name string) string {
	switch name {
	case "garbagecollector":
		return GarbageCollectorController
	case "namespace":
		return NamespaceController
	case "resourcequota":
		return ResourceQuotaController
	}
	return name
}

// checkControllers returns an error for a name that is unknown.
func checkControllers(list []string) error {
	for _, item := range list {
		switch controllerAlias(strings.TrimPrefix(item, "-")) {
		case GarbageCollectorController, NamespaceController, ResourceQuotaController:
		default:
			if item != "*" {
				return fmt.Errorf("controller %q is unknown: want *, %s, %s or %s, each with - in front to turn it off",
					item, GarbageCollectorController, NamespaceController, ResourceQuotaController)
			}
		}
	}
	return nil
}

// runs reports whether a controller is in a list: by its name, or by * without its name
// after a - (k8s.io/controller-manager app.IsControllerEnabled). The first of them counts.
func (c Config) runs(controller string) bool {
	star := false
	for _, item := range c.Controllers {
		name, off := strings.CutPrefix(item, "-")
		switch {
		case controllerAlias(name) == controller:
			return !off
		case item == "*":
			star = true
		}
	}
	return star
}

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
