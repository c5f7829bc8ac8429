package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Log is what the metrics ask of a log.
type Log interface {
	Stats() revlog.Stats
	// Durable returns why data may be lost, and Writable why no write is taken now; nil: it is well.
	Durable() error
	Writable() error
}

// Gauges collects the metrics of the cache and the log on each scrape. Metrics that
// kube-apiserver has too have the same names.
type Gauges struct {
	registry *registry.Registry
	log      Log
	// storage is the label of the log's size: what the log belongs to.
	storage string

	objects, cacheRV, watchers, historyReads, floor *prometheus.Desc // by resource
	floorAge                                        *prometheus.Desc // by resource and by what removed the history below
	head, bytes, oldest, size                       *prometheus.Desc
	groups                                          *prometheus.Desc
	durable, writable, refused, maintenanceFailures *prometheus.Desc
}

// NewGauges returns the metrics of a registry and its log. storage names the store whose log it is.
func NewGauges(r *registry.Registry, log Log, storage string) *Gauges {
	byResource := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"group", "resource"}, nil)
	}
	whole := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &Gauges{
		registry: r, log: log, storage: storage,
		objects:      byResource("apiserver_resource_objects", "Objects stored."),
		cacheRV:      byResource("apiserver_watch_cache_resource_version", "The resource version of the watch cache."),
		watchers:     byResource("gapless_watchers", "Watches that follow the resource now."),
		historyReads: byResource("gapless_history_reads_total", "Reads that memory could not answer, so that the log was asked."),
		floor: byResource("gapless_history_floor_resource_version",
			"The oldest resource version from which a watch can go on."),
		floorAge: prometheus.NewDesc("gapless_history_floor_age_seconds",
			"Age of the change at the oldest resource version from which a watch can go on, where older history was removed, "+
				"and what removed it: age, bytes, requested.",
			[]string{"group", "resource", "removed_by"}, nil),
		head: whole("gapless_history_head_resource_version", "The resource version of the last durable write."),
		bytes: whole("gapless_history_bytes",
			"Bytes of the versions that can still be read and are not the newest of an object."),
		oldest: whole("gapless_history_oldest_event_age_seconds", "Age of the oldest change that can still be read."),
		size: prometheus.NewDesc("apiserver_storage_size_bytes",
			"Bytes of the log's files.", []string{"storage_cluster_id"}, nil),

		groups: whole("gapless_storage_groups_total", "Groups of writes that were written and synced together."),

		durable: whole("gapless_storage_durable",
			"1, or 0 once a sync failed: then writes are refused until a restart."),
		writable: whole("gapless_storage_writable", "1 if a write would be taken now, otherwise 0."),
		refused: whole("gapless_storage_refused_writes_total",
			"Writes refused for a cause that passes, like a full disk."),
		maintenanceFailures: whole("gapless_storage_maintenance_failures_total",
			"Failures to compact or merge history, which are tried again."),
	}
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.objects, g.cacheRV, g.watchers, g.historyReads, g.floor, g.floorAge, g.head, g.bytes, g.oldest, g.size, g.groups,
		g.durable, g.writable, g.refused, g.maintenanceFailures,
	} {
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
	}
	gauge(g.head, float64(log.Revision))
	gauge(g.bytes, float64(log.History))
	gauge(g.size, float64(log.Bytes), g.storage)
	gauge(g.durable, boolean(g.log.Durable()))
	gauge(g.writable, boolean(g.log.Writable()))
	to <- prometheus.MustNewConstMetric(g.groups, prometheus.CounterValue, float64(log.Groups))
	to <- prometheus.MustNewConstMetric(g.refused, prometheus.CounterValue, float64(log.RefusedWrites))
	to <- prometheus.MustNewConstMetric(g.maintenanceFailures, prometheus.CounterValue, float64(log.MaintenanceFailures))
	if !log.Oldest.IsZero() {
		gauge(g.oldest, time.Since(log.Oldest).Seconds())
	}
}

// boolean is 1 for no error.
func boolean(err error) float64 {
	if err != nil {
		return 0
	}
	return 1
}
