package kinds

import (
	"iter"
	"slices"
)

// Catalog is an immutable set of resources. It is safe for concurrent use, and
// so are the slices that its methods return, which must not be modified.
type Catalog struct {
	byGVR map[GroupVersionResource]*Resource
	// list is sorted: groups in the order of discovery (see groupPriority), their
	// versions by priority, resources by plural.
	list []*Resource
	// storage has the storage version of each resource, served or not.
	storage map[GroupResource]*Resource
	// unserved has the versions that are not served.
	unserved []*Resource
	groups   []Group
}

// Group is one API group with its served versions, the preferred one first.
type Group struct {
	Name     string // "" for the core group
	Versions []GroupVersion
}

// GroupVersion is one served version of a group with its resources by plural.
type GroupVersion struct {
	Group     string
	Version   string
	Resources []*Resource
}

// NewCatalog returns a catalog of these resources. Of two with the same version of the same
// resource, the later one wins.
func NewCatalog(resources ...*Resource) *Catalog {
	byGVR := make(map[GroupVersionResource]*Resource, len(resources))
	for _, r := range resources {
		byGVR[r.GVR()] = r
	}
	return index(byGVR)
}

// index builds the views of a catalog from all its resources.
func index(all map[GroupVersionResource]*Resource) *Catalog {
	c := &Catalog{
		byGVR:   make(map[GroupVersionResource]*Resource, len(all)),
		list:    make([]*Resource, 0, len(all)),
		storage: make(map[GroupResource]*Resource, len(all)),
	}
	for gvr, r := range all {
		if r.Version == r.StorageVersion {
			c.storage[r.GR()] = r
		}
		if r.Unserved {
			c.unserved = append(c.unserved, r)
			continue
		}
		c.byGVR[gvr] = r
		c.list = append(c.list, r)
	}
	slices.SortFunc(c.list, compareResources)
	for start := 0; start < len(c.list); {
		first := c.list[start]
		end := start + 1
		for end < len(c.list) && c.list[end].Group == first.Group && c.list[end].Version == first.Version {
			end++
		}
		if n := len(c.groups); n == 0 || c.groups[n-1].Name != first.Group {
			c.groups = append(c.groups, Group{Name: first.Group})
		}
		g := &c.groups[len(c.groups)-1]
		g.Versions = append(
			g.Versions,
			GroupVersion{Group: first.Group, Version: first.Version, Resources: c.list[start:end:end]},
		)
		start = end
	}
	return c
}

// Lookup returns a served version of a resource.
func (c *Catalog) Lookup(gvr GroupVersionResource) (*Resource, bool) {
	r, ok := c.byGVR[gvr]
	return r, ok
}

// Storage returns the resource in the version in which its objects are stored;
// that version need not be served.
func (c *Catalog) Storage(gr GroupResource) (*Resource, bool) {
	r, ok := c.storage[gr]
	return r, ok
}

// BuiltIn reports whether a resource is built in: a definition of it has no effect.
func (c *Catalog) BuiltIn(gr GroupResource) bool {
	return slices.ContainsFunc(c.list, func(r *Resource) bool { return !r.Custom && r.GR() == gr })
}

// Resources returns every served version of every resource, in the order of
// discovery.
func (c *Catalog) Resources() []*Resource { return c.list }

// All returns every version of every resource, in no order, also those that are not served:
// managedFields may name them.
func (c *Catalog) All() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for _, some := range [][]*Resource{c.list, c.unserved} {
			for _, r := range some {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Stored returns the storage version of every resource, in the order of
// discovery: one for each resource that has a cache and keys in the store.
func (c *Catalog) Stored() []*Resource {
	stored := make([]*Resource, 0, len(c.storage))
	for _, r := range c.storage {
		stored = append(stored, r)
	}
	slices.SortFunc(stored, compareResources)
	return stored
}

// Groups returns the served groups and versions in the order of discovery.
func (c *Catalog) Groups() []Group { return c.groups }

// With returns a catalog that also has these resources. It replaces all former versions of
// the same resources.
func (c *Catalog) With(resources ...*Resource) *Catalog {
	replaced := make(map[GroupResource]bool, len(resources))
	for _, r := range resources {
		replaced[r.GR()] = true
	}
	all := c.except(func(gr GroupResource) bool { return replaced[gr] })
	for _, r := range resources {
		all[r.GVR()] = r
	}
	return index(all)
}

// Without returns a catalog that has no version of this resource.
func (c *Catalog) Without(gr GroupResource) *Catalog {
	return index(c.except(func(other GroupResource) bool { return other == gr }))
}

func (c *Catalog) except(gone func(GroupResource) bool) map[GroupVersionResource]*Resource {
	all := make(map[GroupVersionResource]*Resource, len(c.list)+1)
	for r := range c.All() {
		if !gone(r.GR()) {
			all[r.GVR()] = r
		}
	}
	return all
}
