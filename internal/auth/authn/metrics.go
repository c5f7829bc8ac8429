package authn

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// allowed and denied are the values of the label decision.
const (
	allowed = "allowed"
	denied  = "denied"
)

// counted are the metrics of one kind of thing, by mode and decision.
type counted struct {
	total *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// metrics are those of upstream (apiserver endpoints/filters/impersonation/metrics).
type metrics struct {
	attempts  counted // requests
	questions counted // to the authorizer
}

func newMetrics() metrics {
	return metrics{
		attempts: newCounted("apiserver_impersonation_attempts",
			"Requests that want to run as another user, by the mode that allowed it: legacy is the verb impersonate, and "+
				"denied ones have no mode.",
			"Time until it was decided whether a request may run as another user."),
		questions: newCounted("apiserver_impersonation_authorization_attempts",
			"Questions to the authorizer whether a caller may impersonate a part of a user, by the mode that was tried: legacy "+
				"is the verb impersonate. No answer is kept here.",
			"Time until the authorizer had answered whether a caller may impersonate a part of a user."),
	}
}

func newCounted(name, total, took string) counted {
	labels := []string{"mode", "decision"}
	return counted{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "_total", Help: total}, labels),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name + "_duration_seconds", Help: took, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
}

// count counts what began at a time. The mode is a label, such as that of label.
func (c counted) count(mode, decision string, began time.Time) {
	c.total.WithLabelValues(mode, decision).Inc()
	c.took.WithLabelValues(mode, decision).Observe(time.Since(began).Seconds())
}

// label is the value of the label mode.
func (m mode) label() string { return cmp.Or(m.name, "legacy") }

func (m metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.attempts.total, m.attempts.took, m.questions.total, m.questions.took}
}

// Describe implements prometheus.Collector.
func (i *Impersonation) Describe(to chan<- *prometheus.Desc) {
	for _, c := range i.metrics.collectors() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (i *Impersonation) Collect(to chan<- prometheus.Metric) {
	for _, c := range i.metrics.collectors() {
		c.Collect(to)
	}
}
