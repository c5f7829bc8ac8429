package quotas

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gapless-io/gapless/internal/admission"
)

// metrics count what the plugin does. Upstream has no metrics of it but the duration of the plugin.
type metrics struct {
	charges           *prometheus.HistogramVec
	settlements       *prometheus.CounterVec
	writes, conflicts prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		charges: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gapless_quota_charge_duration_seconds",
			Help: "Time until a write was charged to the ResourceQuotas of its namespace, or not: charged, uncharged (it uses " +
				"nothing more of them), refused (403), failed.",
			Buckets: []float64{0.0001, 0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 10},
		}, []string{"result"}),
		settlements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gapless_quota_settlements_total",
			Help: "Writes that were charged to ResourceQuotas, by what became of them: stored, given_back (they were refused " +
				"later), doubtful (nobody knows: the quota is counted again).",
		}, []string{"outcome"}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gapless_quota_status_writes_total",
			Help: "Writes of the status of ResourceQuotas by the admission plugin; one serves all charges that wait for it.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gapless_quota_conflicts_total",
			Help: "Times that such a write was tried again because others had changed the ResourceQuota meanwhile.",
		}),
	}
}

func (m *metrics) charged(began time.Time, charged bool, err error) {
	result := "uncharged"
	switch {
	case apierrors.IsForbidden(err):
		result = "refused"
	case err != nil:
		result = "failed"
	case charged:
		result = "charged"
	}
	m.charges.WithLabelValues(result).Observe(time.Since(began).Seconds())
}

func (m *metrics) settled(o admission.Outcome) {
	outcome := "stored"
	switch o {
	case admission.Refused:
		outcome = "given_back"
	case admission.Doubtful:
		outcome = "doubtful"
	case admission.Stored:
	}
	m.settlements.WithLabelValues(outcome).Inc()
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.charges, m.settlements, m.writes, m.conflicts}
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
