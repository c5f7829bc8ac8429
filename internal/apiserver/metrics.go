package apiserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the server's, under kube-apiserver's names (server.md 6.6), so that
// existing dashboards work.
type metrics struct {
	registry   *prometheus.Registry
	handler    http.Handler
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	sizes      *prometheus.HistogramVec
	long       *prometheus.GaugeVec
	reading    prometheus.Gauge
	writing    prometheus.Gauge
	events     *prometheus.CounterVec
	eventSizes *prometheus.HistogramVec
}

func newMetrics(more []prometheus.Collector) *metrics {
	where := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	gvr := []string{"group", "version", "resource"}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests by verb, resource and status code.",
		}, append(append([]string{}, where...), "dry_run", "code")),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "Time from a request to its answer, watches left out.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, where),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_response_sizes", Help: "Bytes of the bodies of answers, watches left out.",
			Buckets: prometheus.ExponentialBuckets(1000, 10, 7),
		}, where),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches that are open now.",
		}, where),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total", Help: "Events sent to watchers.",
		}, gvr),
		eventSizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_events_sizes", Help: "Mean bytes of the events of a write to a watcher.",
			Buckets: prometheus.ExponentialBuckets(1024, 2, 8),
		}, gvr),
	}
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "apiserver_current_inflight_requests", Help: "Requests under way now, watches left out.",
	}, []string{"request_kind"})
	m.reading, m.writing = inFlight.WithLabelValues("readOnly"), inFlight.WithLabelValues("mutating")
	m.registry.MustRegister(m.requests, m.durations, m.sizes, m.long, inFlight, m.events, m.eventSizes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(more...)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// labels are the values of where.
func (rt *route) labels() []string {
	if rt.Resource == nil {
		return []string{string(rt.verb), "", "", "", "", "", "apiserver"}
	}
	return []string{metricVerb(rt.verb), rt.Resource.Group, rt.Resource.Version, rt.Resource.Plural, rt.Subresource, rt.scope(), "apiserver"}
}

// metricVerb is a verb as upstream's metrics have it: the HTTP method, but LIST
// and WATCH.
func metricVerb(v verb) string {
	switch v {
	case verbGet:
		return "GET"
	case verbList:
		return "LIST"
	case verbWatch:
		return "WATCH"
	case verbCreate:
		return "POST"
	case verbUpdate:
		return "PUT"
	case verbPatch:
		return "PATCH"
	case verbDelete:
		return "DELETE"
	case verbDeleteCollection:
		return "DELETECOLLECTION"
	case verbOther:
	}
	return "other"
}

func (m *metrics) observe(rt route, rec *recorder, took time.Duration) {
	labels := rt.labels()
	m.requests.WithLabelValues(append(labels, "", strconv.Itoa(rec.code))...).Inc()
	if rt.verb != verbWatch {
		m.durations.WithLabelValues(labels...).Observe(took.Seconds())
		m.sizes.WithLabelValues(labels...).Observe(float64(rec.bytes))
	}
}

// inFlight is the gauge that counts requests of this kind.
func (m *metrics) inFlight(rt route) prometheus.Gauge {
	switch rt.verb {
	case verbCreate, verbUpdate, verbPatch, verbDelete, verbDeleteCollection:
		return m.writing
	case verbGet, verbList, verbWatch, verbOther:
	}
	return m.reading
}

// longRunning counts a watch as open until the function it returns is called.
func (m *metrics) longRunning(rt route) (done func()) {
	g := m.long.WithLabelValues(rt.labels()...)
	g.Inc()
	return g.Dec
}

// watchMetrics are the counters of one resource's watches, looked up once.
type watchMetrics struct {
	events prometheus.Counter
	sizes  prometheus.Observer
}

func (m *metrics) watching(rt route) *watchMetrics {
	r := rt.Resource
	return &watchMetrics{
		events: m.events.WithLabelValues(r.Group, r.Version, r.Plural),
		sizes:  m.eventSizes.WithLabelValues(r.Group, r.Version, r.Plural),
	}
}

func (m *watchMetrics) sent(events, bytes int) {
	if bytes == 0 {
		return
	}
	m.events.Add(float64(events))
	m.sizes.Observe(float64(bytes) / float64(events))
}
