package policy

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What a binding made of a decision.
const (
	actionAllow = "allow"
	actionDeny  = "deny"
	actionAudit = "audit"
	actionWarn  = "warn"
)

// metrics have upstream's names and labels.
type metrics struct {
	checks, mutations     *prometheus.CounterVec
	checking, mutationing *prometheus.HistogramVec
}

func newMetrics() *metrics {
	buckets := []float64{0.0000005, 0.001, 0.01, 0.1, 1.0} // apiserver policy/validating/metrics
	checked := []string{"policy", "policy_binding", "error_type", "enforcement_action"}
	mutated := []string{"policy", "policy_binding", "error_type"}
	return &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_validating_admission_policy_check_total",
			Help: "Validations of policies that failed or could not be evaluated, by policy, binding, error and what the " +
				"binding made of it.",
		}, checked),
		checking: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_validating_admission_policy_check_duration_seconds",
			Help: "Time of the validations that apiserver_validating_admission_policy_check_total counts.", Buckets: buckets,
		}, checked),
		mutations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_mutating_admission_policy_check_total",
			Help: "Mutations of policies, by policy, binding and error.",
		}, mutated),
		mutationing: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_mutating_admission_policy_check_duration_seconds",
			Help: "Time of the mutations of policies.", Buckets: buckets,
		}, mutated),
	}
}

func (m *metrics) checked(by matched, d decision, action string) {
	kind := "invalid_error" // upstream says so also of a validation that failed
	if d.failed {
		kind = errorType(d.message)
	}
	m.checks.WithLabelValues(by.name, by.binding.name, kind, action).Inc()
	m.checking.WithLabelValues(by.name, by.binding.name, kind, action).Observe(d.elapsed.Seconds())
}

func (m *metrics) mutated(by matched, err error, elapsed time.Duration) {
	kind := "no_error"
	if err != nil {
		kind = errorType(err.Error())
	}
	m.mutations.WithLabelValues(by.name, by.binding.name, kind).Inc()
	m.mutationing.WithLabelValues(by.name, by.binding.name, kind).Observe(elapsed.Seconds())
}

func errorType(text string) string {
	switch {
	case strings.HasPrefix(text, "compilation"):
		return "compile_error"
	case strings.HasPrefix(text, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.checks, m.checking, m.mutations, m.mutationing}
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
