package members

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauges are the metrics of a cluster of etcd, as a Report has it.
type Gauges struct {
	up, dbBytes, inUse, quota          *prometheus.Desc // by member
	problems, certificate, quorum, lag *prometheus.Desc
}

// NewGauges returns the metrics of a cluster, which always have these labels.
func NewGauges(always prometheus.Labels) *Gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_"+name, help, labels, always)
	}
	return &Gauges{
		up:      desc("etcd_member_up", "1 if the member of etcd answered, otherwise 0.", "endpoint"),
		dbBytes: desc("etcd_db_bytes", "Bytes of the member's database.", "endpoint"),
		inUse:   desc("etcd_db_in_use_bytes", "Bytes of the member's database that are in use.", "endpoint"),
		quota: desc("etcd_db_quota_bytes",
			"How large the member's database may become; etcd before 3.6 does not say.", "endpoint"),
		problems: desc("etcd_problems", "What is wrong with etcd, as /readyz names it.", "cause"),
		certificate: desc("etcd_client_certificate_expiry_seconds",
			"For how long the client certificate for etcd is valid."),
		quorum: desc("etcd_quorum", "1 if a majority of the members of etcd answered, otherwise 0."),
		lag: desc("replica_lag_revisions",
			"How many revisions this replica is behind what the members of etcd had reached when it looked last, which is every "+
				"10 seconds; also of changes that others make to their own keys there."),
	}
}

// Describe sends what each of the metrics is.
func (g *Gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.up, g.dbBytes, g.inUse, g.quota, g.problems, g.certificate, g.quorum, g.lag} {
		to <- d
	}
}

// Collect sends the metrics of a report, to a replica that has reached a revision.
func (g *Gauges) Collect(to chan<- prometheus.Metric, report Report, reached int64) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(g.quorum, one(report.Quorum))
	behind := int64(0)
	for _, m := range report.Members {
		behind = max(behind, m.Revision-reached)
		gauge(g.up, one(m.Err), m.Endpoint)
		if m.Err != nil {
			continue
		}
		gauge(g.dbBytes, float64(m.DBBytes), m.Endpoint)
		gauge(g.inUse, float64(m.InUseBytes), m.Endpoint)
		if m.QuotaBytes > 0 {
			gauge(g.quota, float64(m.QuotaBytes), m.Endpoint)
		}
	}
	gauge(g.lag, float64(behind))
	if !report.CertificateEnds.IsZero() {
		gauge(g.certificate, time.Until(report.CertificateEnds).Seconds())
	}
	counts := map[Cause]int{}
	for _, p := range report.Problems {
		counts[p.Cause]++
	}
	for cause, n := range counts {
		gauge(g.problems, float64(n), string(cause))
	}
}

// one is 1 for no error.
func one(err error) float64 {
	if err != nil {
		return 0
	}
	return 1
}
