package encrypted

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Transformations are upstream's metrics of encryption and decryption, and of key management
// services: apiserver_storage_* and apiserver_envelope_encryption_*. Its library counts them for
// the whole process, in a registry of its own.
type Transformations struct{}

var _ prometheus.Collector = Transformations{}

// Describe implements prometheus.Collector. It says nothing: what there is depends on what was
// used.
func (Transformations) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (Transformations) Collect(to chan<- prometheus.Metric) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "apiserver_storage_") && !strings.HasPrefix(name, "apiserver_envelope_encryption_") {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := make([]string, len(m.GetLabel()))
			for i, l := range m.GetLabel() {
				labels[i] = l.GetName()
			}
			to <- gathered{prometheus.NewDesc(name, family.GetHelp(), labels, nil), m}
		}
	}
}

// gathered is a metric of another registry.
type gathered struct {
	desc  *prometheus.Desc
	value *dto.Metric
}

// Desc implements prometheus.Metric.
func (g gathered) Desc() *prometheus.Desc { return g.desc }

// Write implements prometheus.Metric.
func (g gathered) Write(to *dto.Metric) error {
	to.Label, to.TimestampMs = g.value.GetLabel(), g.value.TimestampMs
	to.Gauge, to.Counter, to.Summary = g.value.GetGauge(), g.value.GetCounter(), g.value.GetSummary()
	to.Untyped, to.Histogram = g.value.GetUntyped(), g.value.GetHistogram()
	return nil
}
