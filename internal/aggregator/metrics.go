package aggregator

import "github.com/prometheus/client_golang/prometheus"

// unavailable are upstream's names (kube-aggregator pkg/controllers/status/metrics).
//
//nolint:gochecknoglobals // descriptions
var (
	unavailableNow = prometheus.NewDesc("aggregator_unavailable_apiservice",
		"1 if an APIService whose requests are passed on to a Service is not Available, otherwise 0.", []string{"name"}, nil)
	unavailableTimes = prometheus.NewDesc("aggregator_unavailable_apiservice_total",
		"Times that an APIService ceased to be Available, by the reason of its condition. Only the replica counts that leads.",
		[]string{"name", "reason"}, nil)
)

// ceased is how often an APIService ceased to be available, for a reason.
type ceased struct{ name, reason string }

// Describe implements prometheus.Collector.
func (a *Aggregator) Describe(to chan<- *prometheus.Desc) {
	to <- unavailableNow
	to <- unavailableTimes
}

// Collect implements prometheus.Collector.
func (a *Aggregator) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.backends {
		value := 1.0
		if b.available {
			value = 0
		}
		to <- prometheus.MustNewConstMetric(unavailableNow, prometheus.GaugeValue, value, b.name)
	}
	for of, n := range a.ceased {
		to <- prometheus.MustNewConstMetric(unavailableTimes, prometheus.CounterValue, float64(n), of.name, of.reason)
	}
}

// count counts that an APIService is not available any more. Those that are gone are forgotten.
func (a *Aggregator) count(name, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of := range a.ceased {
		if a.services[of.name] == nil {
			delete(a.ceased, of)
		}
	}
	a.ceased[ceased{name, reason}]++
}
