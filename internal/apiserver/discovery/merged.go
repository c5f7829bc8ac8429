package discovery

import (
	"cmp"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/kinds"
)

// mergedGroup is a group with the versions that this server and others serve.
type mergedGroup struct {
	name     string
	priority int32
	versions []mergedVersion
}

// mergedVersion is a version that this server serves, or that another one does.
type mergedVersion struct {
	name     string
	priority int32
	here     *kinds.GroupVersion
	behind   *aggregator.Version
}

// merge returns the groups but the core one, in the order of discovery: of priorities, and then of names (kube-aggregator
// pkg/apis/apiregistration/v1/helper SortedByGroupAndVersion). Where both serve a version, the other server does.
func merge(catalog *kinds.Catalog, behind *aggregator.Versions) []*mergedGroup {
	var groups []*mergedGroup
	by := map[string]*mergedGroup{}
	add := func(group string, priority int32, v mergedVersion) {
		g := by[group]
		if g == nil {
			g = &mergedGroup{name: group}
			by[group], groups = g, append(groups, g)
		}
		g.priority = max(g.priority, priority)
		g.versions = append(g.versions, v)
	}
	for _, g := range catalog.Groups() {
		if g.Name == "" {
			continue
		}
		for i := range g.Versions {
			v := &g.Versions[i]
			if behind.Has(schema.GroupVersion{Group: v.Group, Version: v.Version}) {
				continue
			}
			group, priority := v.Priority()
			add(v.Group, group, mergedVersion{name: v.Version, priority: priority, here: v})
		}
	}
	for i := range behind.All {
		v := &behind.All[i]
		add(v.Group, v.GroupPriority, mergedVersion{name: v.Version, priority: v.Priority, behind: v})
	}
	slices.SortStableFunc(groups, func(a, b *mergedGroup) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), strings.Compare(a.name, b.name))
	})
	for _, g := range groups {
		slices.SortStableFunc(g.versions, func(a, b mergedVersion) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), -version.CompareKubeAwareVersionStrings(a.name, b.name))
		})
	}
	return groups
}

// Groups are the documents of all groups but the core one, as of Group. Behind are those of other servers; nil: there are
// none.
func Groups(catalog *kinds.Catalog, behind *aggregator.Versions) []metav1.APIGroup {
	all := []metav1.APIGroup{}
	if behind == nil {
		for _, g := range catalog.Groups() {
			if g.Name != "" {
				all = append(all, Group(g))
			}
		}
		return all
	}
	for _, g := range merge(catalog, behind) {
		group := metav1.APIGroup{Name: g.name}
		for _, v := range g.versions {
			gv := metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v.name, Version: v.name}
			group.Versions = append(group.Versions, gv)
		}
		group.PreferredVersion = group.Versions[0]
		all = append(all, group)
	}
	return all
}

// aggregateAll is the aggregated form of all groups but the core one. Versions of servers that were not asked yet are
// not in it, as upstream.
func aggregateAll(catalog *kinds.Catalog, behind *aggregator.Versions) []discoveryv2.APIGroupDiscovery {
	items := []discoveryv2.APIGroupDiscovery{}
	for _, g := range merge(catalog, behind) {
		group := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			switch {
			case v.here != nil:
				group.Versions = append(group.Versions, aggregateVersion(v.here))
			case v.behind.Discovery != nil:
				group.Versions = append(group.Versions, *v.behind.Discovery)
			}
		}
		if len(group.Versions) > 0 {
			items = append(items, group)
		}
	}
	return items
}
