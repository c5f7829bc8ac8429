package gapless

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// replicaGauges are the metrics of a replica: of its part in a cluster, and of that etcd as it was when the
// replica looked last.
type replicaGauges struct {
	of      *replica
	cluster *etcdCluster
	members *members.Gauges

	leads, reached, compacted *prometheus.Desc
	managed                   *prometheus.Desc
	unreadable                *prometheus.Desc // by resource
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
		members: members.NewGauges(always),
		leads:   desc("replica_leads", "1 if this replica runs the controllers, otherwise 0."),
		managed: desc("kube_controller_manager_active",
			"1 if a kube-controller-manager renews its Lease: what it does is left to it, unless flags say otherwise."),
		reached: desc("replica_resource_version", "The revision of etcd that this replica has reached."),
		compacted: desc("etcd_compacted_resource_version",
			"The revision to which etcd was compacted last, as compactors have noted it."),
		unreadable: desc("unreadable_objects",
			"Objects whose values in etcd cannot be read: their resources are not listed and watched.", "resource"),
	}
}

// Describe implements prometheus.Collector.
func (g *replicaGauges) Describe(to chan<- *prometheus.Desc) {
	g.members.Describe(to)
	for _, d := range []*prometheus.Desc{g.leads, g.managed, g.reached, g.compacted, g.unreadable} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *replicaGauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	is := func(d *prometheus.Desc, yes bool) { gauge(d, map[bool]float64{true: 1}[yes]) }
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
	if report := g.cluster.health.report.Load(); report != nil {
		g.members.Collect(to, *report, g.cluster.reached())
	}
}
