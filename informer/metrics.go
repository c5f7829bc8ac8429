package informer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/transition"
)

// Metric is one metric of an informer. Names are in Prometheus' style. Those that begin
// with "reflector" are client-go's (tools/cache/reflector_metrics.go), with the same
// meaning; client-go defines them without recording them.
type Metric int

// The metrics. Seconds and resource versions are floats, as everywhere in Prometheus.
const (
	_ Metric = iota
	// MetricLists counts requests for the whole state: Status.Lists.
	MetricLists
	// MetricListSeconds is how long reading the whole state took, if it succeeded.
	MetricListSeconds
	// MetricListItems is how many objects it had.
	MetricListItems
	// MetricWatches counts watches that were opened from a resourceVersion:
	// Status.Watches.
	MetricWatches
	// MetricShortWatches counts watches that ended cleanly, within 2 s and without an
	// event (client-go: 1 s).
	MetricShortWatches
	// MetricWatchSeconds is how long a watch was open.
	MetricWatchSeconds
	// MetricWatchItems is how many events and bookmarks it delivered, including the
	// initial events of a streaming list.
	MetricWatchItems
	// MetricResourceVersion is the resourceVersion of the cache, if it is a number.
	MetricResourceVersion
	// MetricRelists counts how often the whole state was read again, by cause: an
	// IncidentKind.
	MetricRelists
	// MetricIncidents counts incidents by kind: Status.Incidents.
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

// MetricType is the type of a metric.
type MetricType int

// The types of metrics. The value of a sample is added to a counter, is the new value of
// a gauge, and is observed by a histogram.
const (
	Counter MetricType = iota
	Gauge
	Histogram
)

// described is the description of a metric.
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

// Help describes the metric in one sentence.
func (m Metric) Help() string { return m.describe().help }

// Type returns the type.
func (m Metric) Type() MetricType { return m.describe().kind }

// Labels returns the names of a sample's labels: "name", which is the informer, and for
// some metrics another one.
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

// Metrics calls record with each measurement, from several goroutines at once. record
// must be quick, because the informer waits for it, and must not panic. docs/informer.md
// shows how to connect it to Prometheus. Registration.Pending and Registration.Lag say how
// far a handler is behind.
func Metrics(record func(Sample)) Option {
	return func(o *options) { o.record = record }
}

// record passes a sample on; label is for metrics that have one.
func (i *Informer[T]) record(m Metric, value float64, label ...string) {
	if i.opts.record != nil {
		i.opts.record(Sample{Metric: m, Labels: slices.Concat([]string{i.source.name}, label), Value: value})
	}
}

// begins records an action of a stream that begins.
func (i *Informer[T]) begins(does transition.Action) {
	switch does {
	case transition.DoList, transition.DoStream:
		i.record(MetricLists, 1)
	case transition.DoWatch:
		i.record(MetricWatches, 1)
	case transition.DoRead, transition.DoWait, transition.DoStop:
	}
}

// ended records an action of a stream that has ended. objects is how many objects the
// stream has now.
func (i *Informer[T]) ended(e reflector.Ending, objects int) {
	if i.opts.record == nil {
		return
	}
	r := e.Result
	switch e.Did {
	case transition.DoList, transition.DoStream:
		if r.Kind != transition.ResultListed && r.Kind != transition.ResultStreamed {
			return
		}
		i.record(MetricListSeconds, e.Took.Seconds())
		i.record(MetricListItems, float64(objects))
		if e.Again {
			i.record(MetricRelists, 1, e.Why.String())
		}
	case transition.DoWatch, transition.DoRead:
		if r.Frames == 0 && r.Kind == transition.ResultFailed {
			return // it was not opened, or broke at once
		}
		i.record(MetricWatchSeconds, r.Lived.Seconds())
		i.record(MetricWatchItems, float64(r.Frames))
		if r.Kind == transition.ResultClosed && r.Frames == 0 && r.Lived < transition.QuickClose {
			i.record(MetricShortWatches, 1)
		}
	case transition.DoWait, transition.DoStop:
	}
}

// published records the size and version of a new state.
func (i *Informer[T]) published() {
	if i.opts.record == nil {
		return
	}
	i.recordMu.Lock() // so that what was recorded last is the newest
	defer i.recordMu.Unlock()
	now := i.cache.Current()
	i.record(MetricObjects, float64(now.Tree.Len()))
	if rv, err := strconv.ParseFloat(now.RV, 64); err == nil {
		i.record(MetricResourceVersion, rv)
	}
}
