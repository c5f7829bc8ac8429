package gapless

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/kinds"
)

// EtcdOverride puts a built-in resource into another etcd cluster than Etcd.Servers, as kube-apiserver's
// --etcd-servers-overrides does. The resourceVersions of its objects are the revisions of that cluster.
type EtcdOverride struct {
	// Group is the API group of the resource, "" for the core group. Resource is its plural name, or "*" for all
	// resources of the group.
	Group    string
	Resource string
	// Servers are the URLs of members of the cluster. It is reached with the certificates, and has the prefix, of
	// Etcd.
	Servers []string
}

// String returns what is overridden as it stands in the flag.
func (o EtcdOverride) String() string { return o.Group + "/" + o.Resource }

// cluster names the cluster: overrides of the same servers, in any order, are one.
func (o EtcdOverride) cluster() string {
	servers := slices.Clone(o.Servers)
	slices.Sort(servers)
	return strings.Join(servers, ";")
}

// checkOverrides returns what is wrong with overrides as far as that can be seen without asking etcd: a server belongs to
// one cluster.
func (e Etcd) checkOverrides() error {
	const main = "the cluster of Etcd.Servers (--etcd-servers)"
	clusters := map[string]string{} // by server
	for _, server := range e.Servers {
		clusters[server] = main
	}
	for _, o := range e.Overrides {
		if o.Resource == "" || len(o.Servers) == 0 {
			return fmt.Errorf("override of etcd's servers %q: want a resource and at least one server", o)
		}
		for _, server := range o.Servers {
			switch other, is := clusters[server]; {
			case !is:
				clusters[server] = o.cluster()
			case other == main:
				return fmt.Errorf("override of etcd's servers %q: %s is in %s: leave the override out", o, server, main)
			case other != o.cluster():
				return fmt.Errorf("override of etcd's servers %q: %s stands elsewhere together with other servers (%s): "+
					"name the same ones for all resources of a cluster", o, server, other)
			}
		}
	}
	return nil
}

// allServers are those of all clusters.
func (e Etcd) allServers() []string {
	all := slices.Clone(e.Servers)
	for _, o := range e.Overrides {
		all = append(all, o.Servers...)
	}
	return all
}

// apartCluster is a cluster of overrides.
type apartCluster struct {
	// place is its number in kube-apiserver's checks of health.
	place     string
	servers   []string
	resources []kinds.GroupResource // sorted by name
}

// apart returns the clusters that have built-in resources of a catalog, and the overrides without effect.
// Definitions and what they define, and APIServices, are always in the cluster of Servers, as upstream: its servers
// of these know no overrides (apiextensions-apiserver pkg/cmd/server/options, kube-aggregator).
func (e Etcd) apart(catalog *kinds.Catalog) (clusters []apartCluster, idle []EtcdOverride) {
	at := map[string]int{}                // the clusters' places
	last := map[string]EtcdOverride{}     // by what is overridden: the last one counts
	used := map[string]bool{}             // the flags that have an effect
	var resources [][]kinds.GroupResource // by place
	for _, o := range e.Overrides {
		last[o.String()] = o
		if _, is := at[o.cluster()]; !is {
			at[o.cluster()] = len(at)
			clusters, resources = append(clusters, apartCluster{servers: o.Servers}), append(resources, nil)
		}
	}
	for _, r := range catalog.Stored() {
		gr := r.GR()
		if r.Custom || gr.Group == "apiextensions.k8s.io" || gr.Group == "apiregistration.k8s.io" {
			continue
		}
		o, is := last[gr.Group+"/"+gr.Resource]
		if !is {
			o, is = last[gr.Group+"/*"]
		}
		if is {
			used[o.String()+"#"+o.cluster()] = true
			resources[at[o.cluster()]] = append(resources[at[o.cluster()]], gr)
		}
	}
	for i := range clusters {
		slices.SortFunc(resources[i], func(a, b kinds.GroupResource) int { return strings.Compare(a.String(), b.String()) })
		clusters[i].place, clusters[i].resources = strconv.Itoa(i), resources[i]
	}
	for _, o := range e.Overrides {
		if !used[o.String()+"#"+o.cluster()] {
			idle = append(idle, o)
		}
	}
	return slices.DeleteFunc(clusters, func(c apartCluster) bool { return len(c.resources) == 0 }), idle
}
