package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/controllers/gc"
)

// Garbage collects the metrics of the garbage collector on each scrape.
type Garbage struct {
	of *gc.Collector

	objects, references, waiting, deletions, releases, errors *prometheus.Desc
}

// NewGarbage returns the metrics of a garbage collector.
func NewGarbage(of *gc.Collector) *Garbage {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_garbage_collector_"+name, help, labels, nil)
	}
	return &Garbage{
		of:         of,
		objects:    desc("objects", "Objects that have owners, are named as owners, or wait for their dependents."),
		references: desc("references", "References of objects to owners."),
		waiting: desc("waiting",
			"Objects to handle: pending now, failed and tried again later, or with an owner of an unknown kind.", "state"),
		deletions: desc("deletions_total", "Objects deleted because their owners are gone, or are deleted in the foreground."),
		releases:  desc("releases_total", "Writes that removed owner references or finalizers."),
		errors:    desc("errors_total", "Failures, which are tried again."),
	}
}

// Describe implements prometheus.Collector.
func (c *Garbage) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.objects, c.references, c.waiting, c.deletions, c.releases, c.errors} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Garbage) Collect(to chan<- prometheus.Metric) {
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
