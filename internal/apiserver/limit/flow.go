package limit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// flow is the metrics of places, with the names of upstream's priority and fairness where
// they mean the same. A kind of places is a priority_level. There are no labels for users: one
// could make as many series as it has names.
type flow struct {
	executing, inqueue, limit *prometheus.Desc
	wait                      *prometheus.HistogramVec
	rejected                  *prometheus.CounterVec
}

func newFlow() flow {
	level := []string{"priority_level"}
	return flow{
		executing: prometheus.NewDesc("apiserver_flowcontrol_current_executing_seats", "Places that are taken now.", level, nil),
		inqueue: prometheus.NewDesc("apiserver_flowcontrol_current_inqueue_requests",
			"Requests that wait for a place now.", level, nil),
		limit: prometheus.NewDesc("apiserver_flowcontrol_nominal_limit_seats", "Places that there are.", level, nil),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_flowcontrol_request_wait_duration_seconds", Help: "How long requests have waited for a place.",
			Buckets: []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}, // upstream's
		}, []string{"priority_level", "execute"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_flowcontrol_rejected_requests_total", Help: "Requests that got no place.",
		}, level),
	}
}

// waited counts a request that got a place, or did not.
func (f *flow) waited(k Kind, got bool, took time.Duration) {
	if got {
		k.waits.Observe(took.Seconds())
		return
	}
	f.rejected.WithLabelValues(k.name).Inc()
	f.wait.WithLabelValues(k.name, "false").Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (l *Load) Describe(out chan<- *prometheus.Desc) {
	out <- l.flow.executing
	out <- l.flow.inqueue
	out <- l.flow.limit
	l.flow.wait.Describe(out)
	l.flow.rejected.Describe(out)
}

// Collect implements prometheus.Collector.
func (l *Load) Collect(out chan<- prometheus.Metric) {
	for _, k := range l.kinds() {
		taken, waiting := k.places.Use()
		out <- prometheus.MustNewConstMetric(l.flow.executing, prometheus.GaugeValue, float64(taken), k.name)
		out <- prometheus.MustNewConstMetric(l.flow.inqueue, prometheus.GaugeValue, float64(waiting), k.name)
		out <- prometheus.MustNewConstMetric(l.flow.limit, prometheus.GaugeValue, float64(k.places.all), k.name)
	}
	l.flow.wait.Collect(out)
	l.flow.rejected.Collect(out)
}
