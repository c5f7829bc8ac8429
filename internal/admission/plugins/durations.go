package plugins

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"
)

// newDurations returns upstream's metric of plugins (apiserver pkg/admission/metrics).
func newDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "apiserver_admission_controller_admission_duration_seconds",
		Help: "Time of an admission plugin, by its name, phase (admit, validate), operation, and whether the write was refused.",
		// Upstream's first bucket is 5 ms; these plugins read memory.
		Buckets: []float64{0.0001, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5},
	}, []string{"name", "type", "operation", "rejected"})
}

// timer counts how long a plugin takes in one phase of one operation. It finds its series once, and only when it counts:
// most plugins are asked about few kinds.
type timer struct {
	of                *prometheus.HistogramVec
	name, phase       string
	op                upstream.Operation
	allowed, rejected atomic.Pointer[prometheus.Observer]
}

func (s *Set) timer(name, phase string, op upstream.Operation) *timer {
	return &timer{of: s.durations, name: name, phase: phase, op: op}
}

// took counts a call that began at a time and has ended with err now, which it returns: when the next one begins.
func (t *timer) took(began time.Time, err error) time.Time {
	now := time.Now()
	kept, rejected := &t.allowed, "false"
	if err != nil {
		kept, rejected = &t.rejected, "true"
	}
	o := kept.Load()
	if o == nil {
		found := t.of.WithLabelValues(t.name, t.phase, string(t.op), rejected)
		o = &found
		kept.Store(o)
	}
	(*o).Observe(now.Sub(began).Seconds())
	return now
}

// Describe implements prometheus.Collector.
func (s *Set) Describe(to chan<- *prometheus.Desc) { s.durations.Describe(to) }

// Collect implements prometheus.Collector.
func (s *Set) Collect(to chan<- prometheus.Metric) { s.durations.Collect(to) }
