package encrypted

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are upstream's metrics of reloads (apiserver encryptionconfig/metrics).
type Metrics struct {
	server string // the hash of its identity

	reloads, last, info *prometheus.Desc

	// mu guards the following.
	mu     sync.Mutex
	counts map[string]int // by status
	times  map[string]time.Time
	hash   string // of the file in force; "" if there is none
}

var _ prometheus.Collector = (*Metrics)(nil)

const (
	success = "success"
	failure = "failure"
)

func newMetrics(server string) *Metrics {
	const name = "apiserver_encryption_config_controller_"
	return &Metrics{
		server: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(server))),
		reloads: prometheus.NewDesc(name+"automatic_reloads_total",
			"Reloads of the encryption configuration, by success or failure.", []string{"status", "apiserver_id_hash"}, nil),
		last: prometheus.NewDesc(name+"automatic_reload_last_timestamp_seconds",
			"When the encryption configuration was last reloaded, by success or failure.",
			[]string{"status", "apiserver_id_hash"}, nil),
		info: prometheus.NewDesc(name+"last_config_info",
			"The hash of the encryption configuration in force.", []string{"apiserver_id_hash", "hash"}, nil),
		counts: map[string]int{}, times: map[string]time.Time{},
	}
}

func (m *Metrics) inForce(hash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hash = hash
}

// count counts a reload.
func (m *Metrics) count(err error) {
	result := success
	if err != nil {
		result = failure
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[result]++
	m.times[result] = time.Now()
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.reloads, m.last, m.info} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for result, n := range m.counts {
		to <- prometheus.MustNewConstMetric(m.reloads, prometheus.CounterValue, float64(n), result, m.server)
		to <- prometheus.MustNewConstMetric(m.last, prometheus.GaugeValue, float64(m.times[result].UnixMilli())/1000, result,
			m.server)
	}
	if m.hash != "" {
		to <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, m.server, m.hash)
	}
}
