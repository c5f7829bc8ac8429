package security

import (
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/pod-security-admission/api"

	"github.com/gapless-io/gapless/internal/admission/plugins"
)

// The values of labels.
const (
	allowed, denied           = "allow", "deny"
	enforced, audited, warned = "enforce", "audit", "warn"
)

// newest is the version of Kubernetes whose rules these are.
const newest = 37

// metrics have upstream's names and labels (pod-security-admission metrics).
type metrics struct {
	evaluations, exemptions, errors *prometheus.CounterVec
	// newPrivileged counts what most new pods are: it is looked up once.
	newPrivileged func() prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append(labels, "request_operation", "resource", "subresource"))
	}
	m := &metrics{
		evaluations: counter("pod_security_evaluations_total",
			"Number of policy evaluations that occurred, not counting ignored or exempt requests.",
			"decision", "policy_level", "policy_version", "mode"),
		exemptions: counter("pod_security_exemptions_total",
			"Number of exempt requests, not counting ignored or out of scope requests."),
		errors: counter("pod_security_errors_total",
			"Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being "+
				"used for evaluation.", "fatal"),
	}
	m.newPrivileged = sync.OnceValue(func() prometheus.Counter {
		return m.evaluations.WithLabelValues(allowed, string(api.LevelPrivileged), "latest", enforced, "create", "pod", "")
	})
	return m
}

// privileged is evaluated for a pod that nothing is refused.
func (m *metrics) privileged(level api.LevelVersion, w *plugins.Write) {
	if w.GetOperation() == upstream.Create && w.GetSubresource() == "" {
		m.newPrivileged().Inc()
		return
	}
	m.evaluated(allowed, level, enforced, w)
}

func (m *metrics) evaluated(decision string, level api.LevelVersion, mode string, w *plugins.Write) {
	version := level.Version.String()
	known := api.MajorMinorVersion(1, newest)
	switch {
	case level.Latest() || level.Level == api.LevelPrivileged:
		version = "latest"
	case known.Older(level.Version):
		version = "future"
	}
	m.evaluations.WithLabelValues(of(w, decision, string(level.Level), version, mode)...).Inc()
}

func (m *metrics) exempted(w *plugins.Write) { m.exemptions.WithLabelValues(of(w)...).Inc() }

func (m *metrics) failed(fatal bool, w *plugins.Write) {
	m.errors.WithLabelValues(of(w, strconv.FormatBool(fatal))...).Inc()
}

// of appends the labels that all have.
func of(w *plugins.Write, values ...string) []string {
	resource := "controller"
	switch w.GetResource().GroupResource() {
	case pods:
		resource = "pod"
	case namespaces:
		resource = "namespace"
	}
	return append(values, strings.ToLower(string(w.GetOperation())), resource, w.GetSubresource())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.evaluations, m.exemptions, m.errors} {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.evaluations, m.exemptions, m.errors} {
		c.Collect(to)
	}
}
