package addresses

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics are upstream's (kubernetes pkg/registry/core/service/ipallocator and portallocator).
//
//nolint:gochecknoglobals // descriptions
var (
	usedIPs = prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips",
		"Cluster IPs of a range of a ServiceCIDR that Services have.", []string{"cidr"}, nil)
	freeIPs = prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips",
		"Cluster IPs of a range of a ServiceCIDR that are free.", []string{"cidr"}, nil)
	usedPorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports",
		"Node ports of the range that Services have.", nil, nil)
	freePorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports",
		"Node ports of the range that are free.", nil, nil)
)

// Describe implements prometheus.Collector.
func (a *Allocator) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{usedIPs, freeIPs, usedPorts, freePorts} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (a *Allocator) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	ranges, ports := a.used()
	for c, n := range ranges {
		gauge(usedIPs, float64(n), c.prefix.String())
		gauge(freeIPs, float64(c.size-min(c.size, n)), c.prefix.String())
	}
	gauge(usedPorts, float64(ports))
	gauge(freePorts, float64(max(a.in.Size-ports, 0)))
}

// used returns how many addresses are taken of each range, and how many node ports. An address counts for each range that
// has it: ranges may overlap.
func (a *Allocator) used() (of map[cidr]uint64, ports int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settleLocked()
	a.rangesLocked()
	of = make(map[cidr]uint64, len(a.ranges))
	for _, c := range a.ranges {
		of[c] = 0
	}
	// Of the ranges that have an address all begin with a prefix of it: one look for each length that there is.
	byPrefix, lengths := map[netip.Prefix]cidr{}, map[int]bool{}
	for _, c := range a.ranges {
		byPrefix[c.prefix], lengths[c.prefix.Bits()] = c, true
	}
	countIn := func(ip netip.Addr) {
		for bits := range lengths {
			if prefix, err := ip.Prefix(bits); err == nil {
				if c, is := byPrefix[prefix]; is && c.has(ip) {
					of[c]++
				}
			}
		}
	}
	for ip := range a.objects {
		countIn(ip)
	}
	for ip := range a.addresses {
		if a.objects[ip] == nil { // a Service has it, and the repair has not made its IPAddress yet
			countIn(ip)
		}
	}
	for port := range a.state.ports {
		if a.in.has(port) {
			ports++
		}
	}
	return of, ports
}
