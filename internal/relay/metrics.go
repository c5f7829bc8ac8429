package relay

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// metrics count what the relay does, by resource.
type metrics struct {
	relay *Relay

	upstream  *prometheus.CounterVec // requests to upstream
	incidents *prometheus.CounterVec // what went wrong with upstream
	failed    *prometheus.CounterVec // ends of a mirror
	rewrites  *prometheus.CounterVec
	lists     *prometheus.CounterVec // served
	resumed   *prometheus.CounterVec // watches from a resourceVersion
	expired   *prometheus.CounterVec // 410s
	passed    *prometheus.CounterVec // lists that upstream served after all

	reached, objects, readers *prometheus.Desc
	contact, age              *prometheus.Desc
	read                      *prometheus.Desc // requests of the informers
}

func newMetrics(r *Relay) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gapless_relay_" + name, Help: help}, labels)
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_relay_"+name, help, []string{"resource"}, nil)
	}
	return &metrics{
		relay: r,
		upstream: vec("upstream_progress_requests_total",
			"Requests to upstream for readers of the most recent state: progress, compare, watch; and one for "+
				"readers of tables: table.", "resource", "request"),
		incidents: vec("upstream_incidents_total", "What went wrong while upstream was read.", "resource", "kind"),
		failed: vec("mirror_failures_total",
			"Times that a resource could no longer be mirrored and was passed through.", "resource"),
		rewrites: vec("upstream_rewrites_total",
			"Times that upstream's history was another one, so that readers got 410.", "resource"),
		lists:   vec("lists_served_total", "Lists that upstream did not have to serve.", "resource"),
		resumed: vec("watches_resumed_total", "Watches that continued from a resourceVersion without a list.", "resource"),
		expired: vec("watches_expired_total", "Watches that got 410, by the reason.", "resource", "reason"),
		passed: vec("lists_passed_total",
			"Lists of the most recent state that upstream served, because it was not known in time whether the "+
				"mirror is up to date.", "resource"),
		reached: desc("resource_version", "The resourceVersion of upstream up to which a resource is mirrored."),
		objects: desc("objects", "Objects of a mirrored resource."),
		read: prometheus.NewDesc("gapless_relay_upstream_reads_total",
			"Lists and watches of upstream since a resource is mirrored.", []string{"resource", "verb"}, nil),
		contact: desc("upstream_last_contact_seconds", "How long ago upstream last answered about a mirrored resource."),
		age: desc("history_floor_age_seconds",
			"Age of the change at the oldest resource version from which a watch of a mirrored resource can go on, where older "+
				"history was removed."),
		readers: desc("readers", "Lists and watches of a mirrored resource that are open."),
	}
}

func (m *metrics) counters() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{m.upstream, m.incidents, m.failed, m.rewrites, m.lists, m.resumed, m.expired, m.passed}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.counters() {
		c.Describe(out)
	}
	out <- m.reached
	out <- m.objects
	out <- m.readers
	out <- m.read
	out <- m.contact
	out <- m.age
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.counters() {
		c.Collect(out)
	}
	for _, s := range m.relay.Status() {
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.Resource)
		}
		gauge(m.reached, float64(s.ResourceVersion))
		gauge(m.objects, float64(s.Objects))
		gauge(m.readers, float64(s.Readers))
		if !s.OldestTime.IsZero() {
			gauge(m.age, time.Since(s.OldestTime).Seconds())
		}
		if !s.LastContact.IsZero() {
			gauge(m.contact, time.Since(s.LastContact).Seconds())
		}
		out <- prometheus.MustNewConstMetric(m.read, prometheus.CounterValue, float64(s.Lists), s.Resource, "list")
		out <- prometheus.MustNewConstMetric(m.read, prometheus.CounterValue, float64(s.Watches), s.Resource, "watch")
	}
}

// counts is what the counters have of one resource.
type counts struct {
	served, passed, resumed int64
	expired                 map[string]int64 // by the reason
}

// counts returns what the counters of readers have, by resource.
func (m *metrics) counts() map[string]counts {
	of := prometheus.NewRegistry()
	of.MustRegister(m.lists, m.passed, m.resumed, m.expired)
	families, err := of.Gather()
	if err != nil {
		m.relay.logger.Warn("read the counters of readers", slog.Any("error", err))
	}
	all := map[string]counts{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			resource, reason := "", ""
			for _, l := range metric.GetLabel() {
				if l.GetName() == "resource" {
					resource = l.GetValue()
				} else {
					reason = l.GetValue()
				}
			}
			c, n := all[resource], int64(metric.GetCounter().GetValue())
			switch family.GetName() {
			case "gapless_relay_lists_served_total":
				c.served = n
			case "gapless_relay_lists_passed_total":
				c.passed = n
			case "gapless_relay_watches_resumed_total":
				c.resumed = n
			case "gapless_relay_watches_expired_total":
				if c.expired == nil {
					c.expired = map[string]int64{}
				}
				c.expired[reason] = n
			}
			all[resource] = c
		}
	}
	return all
}

// Collector returns the relay's metrics.
func (r *Relay) Collector() prometheus.Collector { return r.metrics }

func (m *metrics) incident(c *collection, in informer.Incident) {
	m.incidents.WithLabelValues(c.name, in.Kind.String()).Inc()
}

// expire counts a 410.
func (m *metrics) expire(c *collection, err error) {
	if e, is := errors.AsType[*kube.ExpiredError](err); is {
		reason := e.Reason
		if reason == "" {
			reason = "unknown"
		}
		m.expired.WithLabelValues(c.name, reason).Inc()
	}
}
