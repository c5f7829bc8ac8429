package informer

import (
	"fmt"
	"slices"
)

// Metric is something that an informer measures. Names are in Prometheus' style;
// those that begin with "reflector" are client-go's (tools/cache/reflector_metrics.go)
// and mean the same, which client-go itself never measures.
type Metric int

// The metrics. Seconds and resource versions are floats, as everywhere in Prometheus.
const (
	_ Metric = iota
	// MetricLists counts how often the whole state was asked for: Status.Lists.
	MetricLists
	// MetricListSeconds is how long it took to get, of those that came whole.
	MetricListSeconds
	// MetricListItems is how many objects it had.
	MetricListItems
	// MetricWatches counts how often a watch was opened from a resource version:
	// Status.Watches.
	MetricWatches
	// MetricShortWatches counts watches that ended cleanly, within 2 s and without an
	// event (client-go: 1 s).
	MetricShortWatches
	// MetricWatchSeconds is how long an open watch lived.
	MetricWatchSeconds
	// MetricWatchItems is how many events and bookmarks it brought, the initial ones
	// of a streaming list among them.
	MetricWatchItems
	// MetricResourceVersion is the resource version of the cache; none if it is no
	// number.
	MetricResourceVersion
	// MetricRelists counts how often the whole state had to be read again, by cause:
	// an IncidentKind.
	MetricRelists
	// MetricIncidents counts what went wrong, by kind: Status.Incidents.
	MetricIncidents
	// MetricObjects is how many objects the cache has.
	MetricObjects
)

// AllMetrics returns the metrics, to register them.
func AllMetrics() []Metric {
	var all []Metric
	for m := MetricLists; m <= MetricObjects; m++ {
		all = append(all, m)
	}
	return all
}

// MetricType says what a sample's value is for.
type MetricType int

// The types of metrics. The value of a sample is added to a counter, set in a
// gauge, and observed by a histogram.
const (
	Counter MetricType = iota
	Gauge
	Histogram
)

// described is what there is to say about a metric.
type described struct {
	name, help string
	kind       MetricType
	label      string
}

func (m Metric) describe() described {
	switch m {
	case MetricLists:
		return described{"reflector_lists_total", "How often the whole state was asked for.", Counter, ""}
	case MetricListSeconds:
		return described{"reflector_list_duration_seconds", "How long it took to read the whole state.", Histogram, ""}
	case MetricListItems:
		return described{"reflector_items_per_list", "How many objects the whole state had.", Histogram, ""}
	case MetricWatches:
		return described{"reflector_watches_total", "How often a watch was opened from a resource version.", Counter, ""}
	case MetricShortWatches:
		return described{"reflector_short_watches_total", "How many watches ended at once without an event.", Counter, ""}
	case MetricWatchSeconds:
		return described{"reflector_watch_duration_seconds", "How long a watch lived.", Histogram, ""}
	case MetricWatchItems:
		return described{"reflector_items_per_watch", "How many events and bookmarks a watch brought.", Histogram, ""}
	case MetricResourceVersion:
		return described{"reflector_last_resource_version", "The resource version of the cache.", Gauge, ""}
	case MetricRelists:
		return described{"reflector_relists_total", "How often the whole state had to be read again.", Counter, "cause"}
	case MetricIncidents:
		return described{"informer_incidents_total", "What went wrong.", Counter, "kind"}
	case MetricObjects:
		return described{"informer_objects", "How many objects the cache has.", Gauge, ""}
	}
	return described{name: fmt.Sprintf("informer_metric_%d", int(m))}
}

// String returns the name.
func (m Metric) String() string { return m.describe().name }

// Help says what it is in one sentence.
func (m Metric) Help() string { return m.describe().help }

// Type says what its values are.
func (m Metric) Type() MetricType { return m.describe().kind }

// Labels returns the names of a sample's labels: "name", which is the informer, and
// for some another one.
func (m Metric) Labels() []string {
	if label := m.describe().label; label != "" {
		return []string{"name", label}
	}
	return []string{"name"}
}

// Sample is one measurement.
type Sample struct {
	Metric Metric
	// Labels are the values of the metric's labels, in their order.
	Labels []string
	Value  float64
}

// Metrics hands each measurement to record, from the informer's goroutines, several
// at once. It must be quick, because the informer waits for it, and must not panic.
// How this feeds Prometheus is in docs/informer.md. What handlers are behind is in
// Registration: Pending and Lag.
func Metrics(record func(Sample)) Option {
	return func(o *options) { o.record = record }
}

// record hands a sample on; label is for metrics that have one.
func (i *Informer[T]) record(m Metric, value float64, label ...string) {
	if i.opts.record != nil {
		i.opts.record(Sample{Metric: m, Labels: slices.Concat([]string{i.source.name}, label), Value: value})
	}
}
