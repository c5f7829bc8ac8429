package convert

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What became of a review.
const (
	resultSuccess  = "success"
	resultRefused  = "refused"  // the webhook says that it failed, or its answer is not to be believed
	resultFailed   = "failed"   // there was no answer, or one with another code than 2xx
	resultCanceled = "canceled" // nobody waits for it any more
)

// metrics counts the reviews of all webhooks. A label for the webhook would have values that
// users choose.
type metrics struct {
	requests  *prometheus.CounterVec
	durations prometheus.Histogram
	objects   *prometheus.Desc
	bytes     *prometheus.Desc
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gapless_conversion_webhook_requests_total",
			Help: "Reviews that conversion webhooks were asked for, by result: success, refused (a failure or a wrong answer), " +
				"failed (no answer, or an HTTP error), canceled.",
		}, []string{"result"}),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "gapless_conversion_webhook_duration_seconds",
			Help:    "Time of a review, with the wait for others of the same webhook.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
		objects: prometheus.NewDesc("gapless_conversion_cached_objects",
			"Converted objects that are kept for other readers.", nil, nil),
		bytes: prometheus.NewDesc("gapless_conversion_cached_bytes",
			"Memory of the converted objects that are kept, and of what they were made of.", nil, nil),
	}
	for _, result := range []string{resultSuccess, resultRefused, resultFailed, resultCanceled} {
		m.requests.WithLabelValues(result) // at zero
	}
	return m
}

// called counts a review that began at a time and ended with err.
func (m *metrics) called(ctx context.Context, began time.Time, err error) {
	result := resultFailed
	switch {
	case err == nil:
		result = resultSuccess
	case ctx.Err() != nil:
		result = resultCanceled
	case Refused(err):
		result = resultRefused
	}
	m.requests.WithLabelValues(result).Inc()
	m.durations.Observe(time.Since(began).Seconds())
}

// Describe implements prometheus.Collector.
func (c *Converter) Describe(to chan<- *prometheus.Desc) {
	c.metrics.requests.Describe(to)
	c.metrics.durations.Describe(to)
	to <- c.metrics.objects
	to <- c.metrics.bytes
}

// Collect implements prometheus.Collector.
func (c *Converter) Collect(to chan<- prometheus.Metric) {
	c.metrics.requests.Collect(to)
	c.metrics.durations.Collect(to)
	objects, bytes := c.shared.kept()
	to <- prometheus.MustNewConstMetric(c.metrics.objects, prometheus.GaugeValue, float64(objects))
	to <- prometheus.MustNewConstMetric(c.metrics.bytes, prometheus.GaugeValue, float64(bytes))
}
