package kinds

import (
	"iter"
	"maps"
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
	// stored are those of storage, sorted as list is.
	stored []*Resource
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
func NewCatalog(resources ...*Resource) *Catalog { return (&Catalog{}).With(resources...) }

// group builds the groups from the list.
func (c *Catalog) group() {
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
func (c *Catalog) Stored() []*Resource { return c.stored }

// Groups returns the served groups and versions in the order of discovery.
func (c *Catalog) Groups() []Group { return c.groups }

// With returns a catalog that also has these resources. It replaces all former versions of
// the same resources.
func (c *Catalog) With(resources ...*Resource) *Catalog {
	replaced, last := make(map[GroupResource]bool, len(resources)), make(map[GroupVersionResource]*Resource, len(resources))
	for _, r := range resources {
		replaced[r.GR()], last[r.GVR()] = true, r
	}
	next := c.except(replaced)
	for _, r := range resources {
		if last[r.GVR()] == r {
			next.add(r)
		}
	}
	next.group()
	return next
}

// Without returns a catalog that has no version of this resource.
func (c *Catalog) Without(gr GroupResource) *Catalog {
	next := c.except(map[GroupResource]bool{gr: true})
	next.group()
	return next
}

// except copies a catalog without some resources. Its lists stay sorted, so that a definition more among thousands sorts
// none of the others.
func (c *Catalog) except(gone map[GroupResource]bool) *Catalog {
	next := &Catalog{
		byGVR: maps.Clone(c.byGVR), list: slices.Clone(c.list), storage: maps.Clone(c.storage),
		stored: slices.Clone(c.stored), unserved: slices.Clone(c.unserved),
	}
	if next.byGVR == nil {
		next.byGVR, next.storage = map[GroupVersionResource]*Resource{}, map[GroupResource]*Resource{}
	}
	is := func(r *Resource) bool { return gone[r.GR()] }
	if !slices.ContainsFunc(c.list, is) && !slices.ContainsFunc(c.unserved, is) {
		return next
	}
	for _, r := range c.list {
		if is(r) {
			delete(next.byGVR, r.GVR())
		}
	}
	for gr := range gone {
		delete(next.storage, gr)
	}
	next.list, next.stored = slices.DeleteFunc(next.list, is), slices.DeleteFunc(next.stored, is)
	next.unserved = slices.DeleteFunc(next.unserved, is)
	return next
}

// add puts one version of a resource into a catalog that nobody else has yet.
func (c *Catalog) add(r *Resource) {
	if r.Version == r.StorageVersion {
		c.storage[r.GR()] = r
		c.stored = inserted(c.stored, r)
	}
	if r.Unserved {
		c.unserved = append(c.unserved, r)
		return
	}
	c.byGVR[r.GVR()] = r
	c.list = inserted(c.list, r)
}

// inserted returns a sorted list with one more, in the place of the same version of the same resource.
func inserted(list []*Resource, r *Resource) []*Resource {
	i, found := slices.BinarySearchFunc(list, r, compareResources)
	if found {
		list[i] = r
		return list
	}
	return slices.Insert(list, i, r)
}
