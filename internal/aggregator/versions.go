package aggregator

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Versions are the versions of groups that other servers serve, as of a moment. They are immutable. Nil has none.
type Versions struct {
	// All are sorted by group and version.
	All []Version
	// Paths has where documents of OpenAPI v3 are, by their names.
	Paths map[string]string
	// Swaggers are what is said in OpenAPI v2, in the order in which it is merged.
	Swaggers []*Swagger
	of       map[schema.GroupVersion]int
}

// Version is one of Versions.
type Version struct {
	schema.GroupVersion
	// GroupPriority and Priority say how early the group is, and the version in it: more is earlier.
	GroupPriority, Priority int32
	// Discovery is what the server behind says; nil before it was asked.
	Discovery *discoveryv2.APIVersionDiscovery
}

// Versions returns those of now. They are the same pointer while nothing changes, nil if there are none.
func (a *Aggregator) Versions() *Versions {
	if !a.some.Load() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.versions != nil {
		return a.versions
	}
	v := &Versions{Paths: map[string]string{}, of: map[schema.GroupVersion]int{}}
	for gv, b := range a.backends {
		s := a.services[b.name]
		v.All = append(v.All, Version{
			GroupVersion: gv, GroupPriority: b.spec.GroupPriorityMinimum, Priority: b.spec.VersionPriority, Discovery: s.found,
		})
		maps.Copy(v.Paths, s.paths)
		if s.swagger != nil && s.swagger.zipped != nil {
			v.Swaggers = append(v.Swaggers, s.swagger)
		}
	}
	slices.SortFunc(v.All, func(a, b Version) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version))
	})
	for i := range v.All {
		v.of[v.All[i].GroupVersion] = i
	}
	v.sortSwaggers()
	a.versions = v
	return v
}

// sortSwaggers puts the documents into the order in which upstream merges them (kube-aggregator pkg/controllers/openapi
// aggregator/priority.go): by the highest priority that an APIService of the group has, and by name.
func (v *Versions) sortSwaggers() {
	groups := map[string]int32{}
	for _, one := range v.All {
		groups[one.Group] = max(groups[one.Group], one.GroupPriority)
	}
	slices.SortFunc(v.Swaggers, func(a, b *Swagger) int {
		return cmp.Or(cmp.Compare(groups[b.Group], groups[a.Group]),
			strings.Compare(nameOf(a.GroupVersion), nameOf(b.GroupVersion)))
	})
}

// Of returns those of a group.
func (v *Versions) Of(group string) []Version {
	if v == nil {
		return nil
	}
	at, _ := slices.BinarySearchFunc(v.All, group, func(v Version, group string) int { return strings.Compare(v.Group, group) })
	end := at
	for end < len(v.All) && v.All[end].Group == group {
		end++
	}
	return v.All[at:end]
}

// Has reports whether another server serves a version of a group.
func (v *Versions) Has(gv schema.GroupVersion) bool {
	if v == nil {
		return false
	}
	_, has := v.of[gv]
	return has
}
