package audit_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/audit"
)

func testutilRegistry(t *testing.T, l *audit.Log) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(l); err != nil {
		t.Fatalf("register: %v", err)
	}
	return r
}

// value returns one series of a metric, by the value of its label.
func value(t *testing.T, l *audit.Log, name, label string) float64 {
	t.Helper()
	all, err := testutilRegistry(t, l).Gather()
	if err != nil {
		t.Fatalf("gather the metrics: %v", err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}
