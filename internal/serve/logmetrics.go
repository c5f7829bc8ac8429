package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Log is what the metrics ask of a log.
type Log interface {
	Stats() revlog.Stats
	// Durable returns why data may be lost, and Writable why no write is taken now; nil: it is well.
	Durable() error
	Writable() error
}

// LogGauges collects the metrics of a log on each scrape.
type LogGauges struct {
	log Log
	// storage is the label of the log's size: what the log belongs to.
	storage string

	head, bytes, oldest, size, segments, groups, compactions *prometheus.Desc
	syncs, durable, writable, refused, maintenanceFailures   *prometheus.Desc
}

// NewLogGauges returns the metrics of a log. storage names the store whose log it is.
func NewLogGauges(log Log, storage string) *LogGauges {
	whole := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &LogGauges{
		log: log, storage: storage,
		head: whole("gapless_history_head_resource_version", "The resource version of the last durable write."),
		bytes: whole("gapless_history_bytes",
			"Bytes of the versions that can still be read and are not the newest of an object."),
		oldest: whole("gapless_history_oldest_event_age_seconds", "Age of the oldest change that can still be read."),
		size: prometheus.NewDesc("apiserver_storage_size_bytes",
			"Bytes of the log's files.", []string{"storage_cluster_id"}, nil),
		segments:    whole("gapless_storage_segments", "Files of the log that hold objects and their history."),
		groups:      whole("gapless_storage_groups_total", "Groups of writes that were written and synced together."),
		compactions: whole("gapless_storage_compactions_total", "Compactions that have removed history."),
		syncs: whole("gapless_storage_sync_duration_seconds",
			"Time until the disk had made a group of writes durable (fsync)."),
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
func (g *LogGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.head, g.bytes, g.oldest, g.size, g.segments, g.groups, g.compactions, g.syncs, g.durable, g.writable, g.refused,
		g.maintenanceFailures,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *LogGauges) Collect(to chan<- prometheus.Metric) {
	log := g.log.Stats()
	g.collect(to, &log)
}

func (g *LogGauges) collect(to chan<- prometheus.Metric, log *revlog.Stats) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count := func(d *prometheus.Desc, value int64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
	gauge(g.head, float64(log.Revision))
	gauge(g.bytes, float64(log.History))
	gauge(g.size, float64(log.Bytes), g.storage)
	gauge(g.segments, float64(log.Segments))
	gauge(g.durable, boolean(g.log.Durable()))
	gauge(g.writable, boolean(g.log.Writable()))
	count(g.groups, log.Groups)
	count(g.compactions, log.Compactions)
	count(g.refused, log.RefusedWrites)
	count(g.maintenanceFailures, log.MaintenanceFailures)
	to <- prometheus.MustNewConstHistogram(g.syncs, log.Syncs.Count, log.Syncs.Seconds, log.Syncs.Buckets)
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
