package access

import "github.com/prometheus/client_golang/prometheus"

// kind is what upstream is asked.
type kind string

const (
	kindToken       kind = "token"       // TokenReview
	kindAccess      kind = "access"      // SubjectAccessReview
	kindCredentials kind = "credentials" // a request with the caller's credentials
)

// source is where an answer came from, if not from upstream.
type source string

const (
	fromFresh  source = "fresh"
	fromShared source = "shared"
	fromStale  source = "stale"
)

// metrics count what was asked.
type metrics struct{ asked, used *prometheus.CounterVec }

func newMetrics() metrics {
	return metrics{
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gapless_relay_reviews_total",
			Help: "Questions to upstream about callers, by kind and result: allowed, denied, or error where " +
				"upstream did not answer.",
		}, []string{"kind", "result"}),
		used: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gapless_relay_reviews_saved_total",
			Help: "Questions about callers that were answered without asking, by kind and source: fresh answers, shared ones " +
				"that another request waited for, and stale ones because upstream could not be reached.",
		}, []string{"kind", "source"}),
	}
}

// count counts a question and its result.
func (m metrics) count(k kind, allowed bool, err error) {
	result := "denied"
	switch {
	case err != nil:
		result = "error"
	case allowed:
		result = "allowed"
	}
	m.asked.WithLabelValues(string(k), result).Inc()
}

// cached returns what counts answers that were not asked for.
func (m metrics) cached(k kind) func(source) {
	return func(from source) { m.used.WithLabelValues(string(k), string(from)).Inc() }
}

// Describe implements prometheus.Collector.
func (a *Access) Describe(to chan<- *prometheus.Desc) {
	a.metrics.asked.Describe(to)
	a.metrics.used.Describe(to)
}

// Collect implements prometheus.Collector.
func (a *Access) Collect(to chan<- prometheus.Metric) {
	a.metrics.asked.Collect(to)
	a.metrics.used.Collect(to)
}
