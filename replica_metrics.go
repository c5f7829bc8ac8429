package gapless

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// replicaGauges are the metrics of a replica: of its part in a cluster, and of that etcd as it was when the
// replica looked last.
type replicaGauges struct {
	of      *replica
	cluster *etcdCluster

	leads, reached, compacted     *prometheus.Desc
	managed                       *prometheus.Desc
	up, dbBytes, inUse, quota     *prometheus.Desc // by member of etcd
	problems, certificate, quorum *prometheus.Desc
	unreadable                    *prometheus.Desc // by resource
}

// newReplicaGauges returns the metrics of a cluster. With several, a label says of which they are; it is empty for the one
// of --etcd-servers.
func newReplicaGauges(of *replica, c *etcdCluster) *replicaGauges {
	var always prometheus.Labels
	if len(of.apart) > 0 {
		always = prometheus.Labels{"override": c.place}
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gapless_"+name, help, labels, always)
	}
	return &replicaGauges{
		of: of, cluster: c,
		leads: desc("replica_leads", "1 if this replica runs the controllers, otherwise 0."),
		managed: desc("kube_controller_manager_active",
			"1 if a kube-controller-manager renews its Lease: what it does is left to it, unless flags say otherwise."),
		reached: desc("replica_resource_version", "The revision of etcd that this replica has reached."),
		compacted: desc("etcd_compacted_resource_version",
			"The revision to which etcd was compacted last, as compactors have noted it."),
		up:      desc("etcd_member_up", "1 if the member of etcd answered, otherwise 0.", "endpoint"),
		dbBytes: desc("etcd_db_bytes", "Bytes of the member's database.", "endpoint"),
		inUse:   desc("etcd_db_in_use_bytes", "Bytes of the member's database that are in use.", "endpoint"),
		quota: desc("etcd_db_quota_bytes",
			"How large the member's database may become; etcd before 3.6 does not say.", "endpoint"),
		problems: desc("etcd_problems", "What is wrong with etcd, as /readyz names it.", "cause"),
		certificate: desc("etcd_client_certificate_expiry_seconds",
			"For how long the client certificate for etcd is valid."),
		unreadable: desc("unreadable_objects",
			"Objects whose values in etcd cannot be read: their resources are not listed and watched.", "resource"),
		quorum: desc("etcd_quorum", "1 if a majority of the members of etcd answered, otherwise 0."),
	}
}

// Describe implements prometheus.Collector.
func (g *replicaGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.leads, g.managed, g.reached, g.compacted, g.up, g.dbBytes, g.inUse, g.quota, g.problems, g.certificate, g.quorum,
		g.unreadable,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *replicaGauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	is := func(d *prometheus.Desc, yes bool, labels ...string) {
		value := 0.0
		if yes {
			value = 1
		}
		gauge(d, value, labels...)
	}
	if g.cluster == g.of.main {
		is(g.leads, g.of.turn.Leads())
		is(g.managed, g.of.manager() != "")
		lost := map[string]int{}
		for _, o := range g.of.unreadable() {
			lost[o.Resource.String()]++
		}
		for resource, n := range lost {
			gauge(g.unreadable, float64(n), resource)
		}
	}
	gauge(g.reached, float64(g.cluster.reached()))
	gauge(g.compacted, float64(g.cluster.compactor.Revision()))
	report := g.cluster.health.report.Load()
	if report == nil {
		return
	}
	is(g.quorum, report.Quorum == nil)
	for _, m := range report.Members {
		is(g.up, m.Err == nil, m.Endpoint)
		if m.Err != nil {
			continue
		}
		gauge(g.dbBytes, float64(m.DBBytes), m.Endpoint)
		gauge(g.inUse, float64(m.InUseBytes), m.Endpoint)
		if m.QuotaBytes > 0 {
			gauge(g.quota, float64(m.QuotaBytes), m.Endpoint)
		}
	}
	if !report.CertificateEnds.IsZero() {
		gauge(g.certificate, time.Until(report.CertificateEnds).Seconds())
	}
	counts := map[members.Cause]int{}
	for _, p := range report.Problems {
		counts[p.Cause]++
	}
	for cause, n := range counts {
		gauge(g.problems, float64(n), string(cause))
	}
}
