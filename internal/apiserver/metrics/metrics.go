// Package metrics counts requests and watch events under kube-apiserver's names, so that
// existing dashboards work.
//
// [Metrics] are those of one server. A [Watch] is the counters of one
// resource's watches.
package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/kube"
)

// Metrics are those of one server. They are safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	scrape     http.Handler
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	sizes      *prometheus.HistogramVec
	long       *prometheus.GaugeVec
	reading    prometheus.Gauge
	writing    prometheus.Gauge
	events     *prometheus.CounterVec
	eventSizes *prometheus.HistogramVec
	eventBytes *prometheus.CounterVec
	expired    *prometheus.CounterVec
	series     *series
}

// New returns metrics at zero; more collectors are served with them. The series of custom
// resources are removed when live no longer has the resource.
func New(live *kinds.Live, more []prometheus.Collector) *Metrics {
	where := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	gvr := []string{"group", "version", "resource"}
	m := &Metrics{
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
		eventBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gapless_watch_sent_bytes_total",
			Help: "Bytes of the events sent to watchers, before compression and encryption.",
		}, gvr),
		expired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gapless_expired_requests_total",
			Help: "Lists and watches that got 410 Expired, by what removed the history that they needed: age, bytes, " +
				"requested, or replaced, definition, unseen, unreadable; unknown.",
		}, []string{"verb", "group", "version", "resource", "reason"}),
	}
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "apiserver_current_inflight_requests", Help: "Requests under way now, watches left out.",
	}, []string{"request_kind"})
	m.reading, m.writing = inFlight.WithLabelValues("readOnly"), inFlight.WithLabelValues("mutating")
	m.registry.MustRegister(m.requests, m.durations, m.sizes, m.long, inFlight, m.events, m.eventSizes, m.eventBytes, m.expired,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(more...)
	m.series = &series{live: live, seen: map[kinds.GroupVersionResource]bool{}}
	m.series.vectors = append(m.series.vectors, m.requests, m.durations, m.sizes, m.long, m.events, m.eventSizes, m.eventBytes)
	m.series.vectors = append(m.series.vectors, m.expired)
	m.scrape = m.series.before(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return m
}

// Describe sends what each of the metrics is.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.scrape.ServeHTTP(w, r) }

// labels are the values of where.
func labels(rt *route.Route) []string {
	if rt.Resource == nil {
		return []string{string(rt.Verb), "", "", "", "", "", "apiserver"}
	}
	return []string{
		metricVerb(rt.Verb), rt.Resource.Group, rt.Resource.Version, rt.Resource.Plural, rt.Subresource, rt.Scope(), "apiserver",
	}
}

// metricVerb is a verb as upstream's metrics have it: the HTTP method, but LIST
// and WATCH.
func metricVerb(v route.Verb) string {
	switch v {
	case route.Get:
		return "GET"
	case route.List:
		return "LIST"
	case route.Watch:
		return "WATCH"
	case route.Create:
		return "POST"
	case route.Update:
		return "PUT"
	case route.Patch:
		return "PATCH"
	case route.Delete:
		return "DELETE"
	case route.DeleteCollection:
		return "DELETECOLLECTION"
	case route.Other:
	}
	return "other"
}

// Answer is the answer to a request, as metrics count it.
type Answer struct {
	Code  int
	Bytes int64
	Took  time.Duration
}

// Observe counts a request that has ended.
func (m *Metrics) Observe(rt *route.Route, a Answer) {
	where := labels(rt)
	m.requests.WithLabelValues(append(where, "", strconv.Itoa(a.Code))...).Inc()
	if rt.Verb != route.Watch {
		m.durations.WithLabelValues(where...).Observe(a.Took.Seconds())
		m.sizes.WithLabelValues(where...).Observe(float64(a.Bytes))
	}
	m.series.saw(rt.Resource)
}

// InFlight returns the gauge of requests of this kind that are under way.
func (m *Metrics) InFlight(rt *route.Route) prometheus.Gauge {
	if rt.Verb.Writes() {
		return m.writing
	}
	return m.reading
}

// LongRunning counts a watch as open until the function it returns is called.
func (m *Metrics) LongRunning(rt *route.Route) (done func()) {
	g := m.long.WithLabelValues(labels(rt)...)
	g.Inc()
	m.series.saw(rt.Resource)
	return g.Dec
}

// Watch is the counters of one resource's watches.
type Watch struct {
	events, bytes prometheus.Counter
	sizes         prometheus.Observer
	of            *Metrics
	resource      *kinds.Resource
}

// Watching returns the counters of a watch's resource.
func (m *Metrics) Watching(rt *route.Route) *Watch {
	r := rt.Resource
	return &Watch{
		events: m.events.WithLabelValues(r.Group, r.Version, r.Plural),
		bytes:  m.eventBytes.WithLabelValues(r.Group, r.Version, r.Plural),
		sizes:  m.eventSizes.WithLabelValues(r.Group, r.Version, r.Plural),
		of:     m, resource: r,
	}
}

// Expired counts the end of a watch, if it is 410.
func (m *Watch) Expired(err error) { m.of.expire(route.Watch, m.resource, err) }

// Expired counts an answer, if it is 410.
func (m *Metrics) Expired(rt *route.Route, err error) { m.expire(rt.Verb, rt.Resource, err) }

func (m *Metrics) expire(verb route.Verb, r *kinds.Resource, err error) {
	e, is := errors.AsType[*kube.ExpiredError](err)
	if !is || r == nil {
		return
	}
	m.expired.WithLabelValues(metricVerb(verb), r.Group, r.Version, r.Plural, cmp.Or(e.Reason, "unknown")).Inc()
	m.series.saw(r)
}

// Sent counts a batch of events that was written to a watcher.
func (m *Watch) Sent(events, bytes int) {
	if bytes == 0 {
		return
	}
	m.events.Add(float64(events))
	m.bytes.Add(float64(bytes))
	m.sizes.Observe(float64(bytes) / float64(events))
}

// Sent returns how many bytes each resource's lists and watches have had so far.
func (m *Metrics) Sent() (map[kinds.GroupVersionResource]int64, error) {
	of := prometheus.NewRegistry()
	of.MustRegister(m.sizes, m.eventBytes)
	families, err := of.Gather()
	if err != nil {
		return nil, fmt.Errorf("read the metrics of answers: %w", err)
	}
	sent := map[kinds.GroupVersionResource]int64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if verb, has := labels["verb"]; !has || verb == metricVerb(route.List) { // of watches it has none
				gvr := kinds.GroupVersionResource{
					Group: labels["group"], Version: labels["version"], Resource: labels["resource"],
				}
				sent[gvr] += int64(metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum())
			}
		}
	}
	return sent, nil
}
