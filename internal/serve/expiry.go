package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/controllers/expiry"
)

// Expiry collects the metrics of the expiry of Events on each scrape.
type Expiry struct {
	of *expiry.Expirer

	deletions, errors *prometheus.Desc
}

// NewExpiry returns the metrics of the expiry of Events.
func NewExpiry(of *expiry.Expirer) *Expiry {
	return &Expiry{
		of: of,
		deletions: prometheus.NewDesc("gapless_event_expiry_deletions_total",
			"Events deleted because they have expired.", nil, nil),
		errors: prometheus.NewDesc("gapless_event_expiry_errors_total",
			"Deletions of expired Events that failed, and are tried again.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Expiry) Describe(to chan<- *prometheus.Desc) {
	to <- c.deletions
	to <- c.errors
}

// Collect implements prometheus.Collector.
func (c *Expiry) Collect(to chan<- prometheus.Metric) {
	s := c.of.Stats()
	to <- prometheus.MustNewConstMetric(c.deletions, prometheus.CounterValue, float64(s.Deleted))
	to <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(s.Failed))
}
