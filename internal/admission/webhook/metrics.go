package webhook

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"
)

// maxNames bounds the webhooks that have series of their own. Users choose the names.
const maxNames = 200

// otherName is the name under which the others are counted.
const otherName = "(others)"

// metrics has upstream's names (apiserver pkg/admission/metrics).
type metrics struct {
	durations  *prometheus.HistogramVec
	rejections *prometheus.CounterVec
	requests   *prometheus.CounterVec
	openings   *prometheus.CounterVec

	// mu guards names.
	mu    sync.Mutex
	names map[string]bool
}

func newMetrics() *metrics {
	return &metrics{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_webhook_admission_duration_seconds",
			Help: "Time of the calls of admission webhooks, by webhook, phase (admit, validating), operation, and whether " +
				"the write was refused.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_rejection_count",
			Help: "Writes that were refused because of an admission webhook; error_type is calling_webhook_error or " +
				"apiserver_internal_error if it could not be asked, no_error if it has refused.",
		}, []string{"name", "type", "operation", "error_type", "rejection_code"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_request_total", Help: "Calls of admission webhooks, with the code of the answer.",
		}, []string{"name", "type", "operation", "code", "rejected"}),
		openings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_fail_open_count",
			Help: "Writes that went on although an admission webhook could not be called, by its failure policy Ignore.",
		}, []string{"name", "type"}),
		names: map[string]bool{},
	}
}

// name returns the label for a webhook.
func (m *metrics) name(webhook string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.names[webhook] {
		if len(m.names) == maxNames {
			return otherName
		}
		m.names[webhook] = true
	}
	return webhook
}

// called counts a call that began at a time and ended with err.
func (m *metrics) called(c *call, a upstream.Attributes, began time.Time, err error) {
	name, op := m.name(c.Name), string(a.GetOperation())
	rejected, code, kind := err != nil, 200, "apiserver_internal_error"
	if failed, is := errors.AsType[*callError](err); is {
		rejected, code, kind = !c.ignores(), int(failed.code), "calling_webhook_error"
	} else if refused, is := errors.AsType[rejection](err); is {
		code, kind = int(refused.ErrStatus.Code), "no_error"
	} else if err != nil {
		code = 0
	}
	text := strconv.Itoa(min(code, 600)) // as upstream: a webhook chooses it
	if rejected && !errors.Is(err, context.Canceled) {
		m.rejections.WithLabelValues(name, c.step(), op, kind, text).Inc()
	}
	m.requests.WithLabelValues(name, c.step(), op, text, strconv.FormatBool(rejected)).Inc()
	m.durations.WithLabelValues(name, c.step(), op, strconv.FormatBool(rejected)).Observe(time.Since(began).Seconds())
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.durations, m.rejections, m.requests, m.openings}
}

// Describe implements prometheus.Collector.
func (p *Plugin) Describe(to chan<- *prometheus.Desc) {
	for _, c := range p.metrics.all() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (p *Plugin) Collect(to chan<- prometheus.Metric) {
	for _, c := range p.metrics.all() {
		c.Collect(to)
	}
}
