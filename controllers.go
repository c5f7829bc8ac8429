package gapless

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// The controllers that a Server can run, by their names in kube-controller-manager. In
// Config.Controllers they may also have the names garbagecollector and namespace.
const (
	// GarbageCollectorController deletes objects whose owners are gone, and serves the
	// propagation policies Foreground and Orphan of deletions.
	GarbageCollectorController = "garbage-collector-controller"
	// NamespaceController deletes the content of namespaces under deletion.
	NamespaceController = "namespace-controller"
)

// controllerAlias is another name of a controller (kubernetes
// cmd/kube-controller-manager/names KCMControllerAliases).
func controllerAlias(name string) string {
	switch name {
	case "garbagecollector":
		return GarbageCollectorController
	case "namespace":
		return NamespaceController
	}
	return name
}

// checkControllers returns an error for a name that is unknown.
func checkControllers(list []string) error {
	for _, item := range list {
		switch controllerAlias(strings.TrimPrefix(item, "-")) {
		case GarbageCollectorController, NamespaceController:
		default:
			if item != "*" {
				return fmt.Errorf("controller %q is unknown: want *, %s or %s, each with - in front to turn it off",
					item, GarbageCollectorController, NamespaceController)
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

// newRegistry makes the registry with the controllers that are turned on, and returns the
// garbage collector; nil if it is turned off.
func (s *Server) newRegistry(log *revlog.Log, live *kinds.Live) *gc.Collector {
	cfg := registry.Config{
		Store: s.store(), Stale: s.values.Stale, Live: live, Logger: s.cfg.Logger,
		KeepNamespaces: !s.cfg.runs(NamespaceController),
		NamespaceQuiet: namespaceQuiet,
	}
	var garbage *gc.Collector
	if s.cfg.runs(GarbageCollectorController) {
		garbage = gc.New(gc.Config{Live: live, Logger: s.cfg.Logger, Writable: log.Writable})
		cfg.Collector = garbage
	}
	s.admit(&cfg)
	s.registry = registry.New(cfg)
	s.cluster.Registry = s.registry
	return garbage
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

// collection collects the metrics of the garbage collector on each scrape.
type collection struct {
	of *gc.Collector

	objects, references, waiting, deletions, releases, errors *prometheus.Desc
}

func newCollection(of *gc.Collector) *collection {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_garbage_collector_"+name, help, labels, nil)
	}
	return &collection{
		of:         of,
		objects:    desc("objects", "Objects that have owners, are named as owners, or wait for their dependents."),
		references: desc("references", "References of objects to owners."),
		waiting:    desc("waiting", "Objects to handle: pending now, failed and tried again later, or with an owner of an unknown kind.", "state"),
		deletions:  desc("deletions_total", "Objects deleted because their owners are gone, or are deleted in the foreground."),
		releases:   desc("releases_total", "Writes that removed owner references or finalizers."),
		errors:     desc("errors_total", "Failures, which are tried again."),
	}
}

// Describe implements prometheus.Collector.
func (c *collection) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.objects, c.references, c.waiting, c.deletions, c.releases, c.errors} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collection) Collect(to chan<- prometheus.Metric) {
	s := c.of.Stats()
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	count := func(d *prometheus.Desc, value int64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
	gauge(c.objects, s.Objects)
	gauge(c.references, s.References)
	gauge(c.waiting, s.Pending, "pending")
	gauge(c.waiting, s.Failed, "failed")
	gauge(c.waiting, s.Unknown, "unknown_kind")
	count(c.deletions, s.Deleted)
	count(c.releases, s.Released)
	count(c.errors, s.Errors)
}

// collectors are the metrics of a server besides those of HTTP.
func collectors(garbage *gc.Collector, always ...prometheus.Collector) []prometheus.Collector {
	if garbage != nil {
		always = append(always, newCollection(garbage))
	}
	return slices.Clip(always)
}
