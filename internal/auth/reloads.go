package auth

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads counts how often a file of configuration was read again. Its metrics have upstream's names (apiserver
// pkg/server/options/authenticationconfig/metrics and authorizationconfig/metrics). It is safe for concurrent use.
type Reloads struct {
	server      string // the hash of its identity
	count, last *prometheus.Desc

	// mu guards the following.
	mu     sync.Mutex
	counts map[string]int // by status
	times  map[string]time.Time
}

// NewReloads returns the metrics of the files of one kind: "authentication" or "authorization". A label has the hash of
// the machine's name, as the metrics of encryption have it.
func NewReloads(kind string) *Reloads {
	server, err := os.Hostname()
	if err != nil {
		server = "gapless"
	}
	name, labels := "apiserver_"+kind+"_config_controller_", []string{"status", "apiserver_id_hash"}
	return &Reloads{
		server: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(server))),
		count: prometheus.NewDesc(name+"automatic_reloads_total",
			"Changes of the "+kind+" configuration file that were put in force (success) or refused (failure).", labels, nil),
		last: prometheus.NewDesc(name+"automatic_reload_last_timestamp_seconds",
			"When a change of the "+kind+" configuration file was last put in force (success) or refused (failure).",
			labels, nil),
		counts: map[string]int{}, times: map[string]time.Time{},
	}
}

// note counts a change of the file that was put in force, or refused with an error. It does nothing where r is nil.
func (r *Reloads) note(err error) {
	if r == nil {
		return
	}
	status := "success"
	if err != nil {
		status = "failure"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[status]++
	r.times[status] = time.Now()
}

// Describe implements prometheus.Collector.
func (r *Reloads) Describe(to chan<- *prometheus.Desc) {
	to <- r.count
	to <- r.last
}

// Collect implements prometheus.Collector.
func (r *Reloads) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for status, n := range r.counts {
		to <- prometheus.MustNewConstMetric(r.count, prometheus.CounterValue, float64(n), status, r.server)
		const thousand = 1000
		to <- prometheus.MustNewConstMetric(r.last, prometheus.GaugeValue, float64(r.times[status].UnixMilli())/thousand, status,
			r.server)
	}
}
