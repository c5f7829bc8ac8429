package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/kube"
)

// Watches collects on each scrape how far watches are behind. A watch that waits for changes is not.
type Watches struct {
	open func() []feed.Open
	// behind counts the changes after a resourceVersion; nil: that is not known.
	behind func(gr schema.GroupResource, rv kube.ResourceVersion) int

	seconds, events *prometheus.Desc
}

// NewWatches returns the metrics of the watches that open returns. behind counts the changes of a resource after a
// resourceVersion that a watch has named; nil: that is not known.
func NewWatches(open func() []feed.Open, behind func(gr schema.GroupResource, rv kube.ResourceVersion) int) *Watches {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"group", "resource"}, nil)
	}
	return &Watches{
		open: open, behind: behind,
		seconds: desc("gapless_watch_lag_seconds",
			"For how long the slowest watch of the resource is being sent the events that it is sent now: its client, or the "+
				"network, does not take them. 0 if all wait for changes."),
		events: desc("gapless_watch_lag_events",
			"Changes of the resource that are in memory and that its slowest watch was not sent yet. 0 if all wait for changes."),
	}
}

// Describe implements prometheus.Collector.
func (w *Watches) Describe(to chan<- *prometheus.Desc) {
	to <- w.seconds
	if w.behind != nil {
		to <- w.events
	}
}

// Collect implements prometheus.Collector.
func (w *Watches) Collect(to chan<- prometheus.Metric) {
	type lag struct {
		seconds float64
		events  int
	}
	all := map[schema.GroupResource]lag{}
	for _, o := range w.open() {
		gr := schema.ParseGroupResource(o.Resource)
		l := all[gr]
		if o.Writing {
			l.seconds = max(l.seconds, time.Since(o.WritingSince).Seconds())
			if w.behind != nil {
				l.events = max(l.events, w.behind(gr, o.Known))
			}
		}
		all[gr] = l
	}
	for gr, l := range all {
		to <- prometheus.MustNewConstMetric(w.seconds, prometheus.GaugeValue, l.seconds, gr.Group, gr.Resource)
		if w.behind != nil {
			to <- prometheus.MustNewConstMetric(w.events, prometheus.GaugeValue, float64(l.events), gr.Group, gr.Resource)
		}
	}
}
