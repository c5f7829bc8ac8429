package gapless

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// gauges are the figures of the cache and the log, read when they are asked for.
// Those that kube-apiserver has too have its names (server.md 6.6).
type gauges struct {
	registry *registry.Registry
	log      *revlog.Log

	objects, cacheRV, watchers, historyReads, floor *prometheus.Desc // by resource
	floorAge                                        *prometheus.Desc // by resource and by what removed the history below
	head, bytes, oldest, size                       *prometheus.Desc
}

func newGauges(r *registry.Registry, log *revlog.Log) *gauges {
	byResource := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"group", "resource"}, nil)
	}
	whole := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &gauges{
		registry: r, log: log,
		objects:      byResource("apiserver_resource_objects", "Objects stored."),
		cacheRV:      byResource("apiserver_watch_cache_resource_version", "The resource version of the watch cache."),
		watchers:     byResource("gapless_watchers", "Watches that follow the resource now."),
		historyReads: byResource("gapless_history_reads_total", "Reads that memory could not answer, so that the log was asked."),
		floor:        byResource("gapless_history_floor_resource_version", "The oldest resource version from which a watch can go on."),
		floorAge: prometheus.NewDesc("gapless_history_floor_age_seconds",
			"Age of the change at the oldest resource version from which a watch can go on, where older history was removed, and what removed it: age, bytes, requested.",
			[]string{"group", "resource", "removed_by"}, nil),
		head:   whole("gapless_history_head_resource_version", "The resource version of the last durable write."),
		bytes:  whole("gapless_history_bytes", "Bytes of all versions that can still be read."),
		oldest: whole("gapless_history_oldest_event_age_seconds", "Age of the oldest change that can still be read."),
		size:   prometheus.NewDesc("apiserver_storage_size_bytes", "Bytes of the log's files.", []string{"storage_cluster_id"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.objects, g.cacheRV, g.watchers, g.historyReads, g.floor, g.floorAge, g.head, g.bytes, g.oldest, g.size} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
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
		to <- prometheus.MustNewConstMetric(g.historyReads, prometheus.CounterValue, float64(cache.HistoryReads), gr.Group, gr.Resource)
	}
	gauge(g.head, float64(log.Revision))
	gauge(g.bytes, float64(log.Retained))
	gauge(g.size, float64(log.Bytes), "embedded")
	if !log.Oldest.IsZero() {
		gauge(g.oldest, time.Since(log.Oldest).Seconds())
	}
}
