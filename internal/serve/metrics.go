package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/registry"
)

// Gauges collects the metrics of the cache and the log on each scrape. Metrics that
// kube-apiserver has too have the same names.
type Gauges struct {
	*LogGauges

	registry *registry.Registry

	objects, cacheRV, watchers, historyReads, paced, floor *prometheus.Desc // by resource
	floorAge                                               *prometheus.Desc // by resource and by what removed the history below
}

// NewGauges returns the metrics of a registry and its log. storage names the store whose log it is.
func NewGauges(r *registry.Registry, log Log, storage string) *Gauges {
	byResource := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"group", "resource"}, nil)
	}
	return &Gauges{
		LogGauges: NewLogGauges(log, storage), registry: r,
		objects:      byResource("apiserver_resource_objects", "Objects stored."),
		cacheRV:      byResource("apiserver_watch_cache_resource_version", "The resource version of the watch cache."),
		watchers:     byResource("gapless_watchers", "Watches that follow the resource now."),
		historyReads: byResource("gapless_history_reads_total", "Reads that memory could not answer, so that the log was asked."),
		paced: byResource("gapless_paced_writes_total",
			"Writes that waited, for at most 5 ms, for watches that were late."),
		floor: byResource("gapless_history_floor_resource_version",
			"The oldest resource version from which a watch can go on."),
		floorAge: prometheus.NewDesc("gapless_history_floor_age_seconds",
			"Age of the change at the oldest resource version from which a watch can go on, where older history was removed, "+
				"and what removed it: age, bytes, requested.",
			[]string{"group", "resource", "removed_by"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(to chan<- *prometheus.Desc) {
	g.LogGauges.Describe(to)
	for _, d := range []*prometheus.Desc{g.objects, g.cacheRV, g.watchers, g.historyReads, g.paced, g.floor, g.floorAge} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *Gauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	log := g.log.Stats()
	for name, cache := range g.registry.Stats() {
		gr := schema.ParseGroupResource(name)
		gauge(g.objects, float64(cache.Objects), gr.Group, gr.Resource)
		gauge(g.cacheRV, float64(cache.RV), gr.Group, gr.Resource)
		gauge(g.watchers, float64(cache.Cursors), gr.Group, gr.Resource)
		floor := log.Floors[name]
		gauge(g.floor, float64(floor.Revision), gr.Group, gr.Resource)
		if !floor.Time.IsZero() {
			gauge(g.floorAge, time.Since(floor.Time).Seconds(), gr.Group, gr.Resource, floor.Reason)
		}
		to <- prometheus.MustNewConstMetric(g.historyReads, prometheus.CounterValue, float64(cache.HistoryReads), gr.Group,
			gr.Resource)
		to <- prometheus.MustNewConstMetric(g.paced, prometheus.CounterValue, float64(cache.Paced), gr.Group, gr.Resource)
	}
	g.collect(to, &log)
}
