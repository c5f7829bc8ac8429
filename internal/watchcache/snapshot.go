package watchcache

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// tree holds objects by Key.String(), whose byte order is the order of lists.
type tree = btree.Map[string, *wire.Object]

// treeDegree is the B-tree's degree: nodes of up to 31 objects, as upstream's
// (cacher's snapshots use 16). A change copies one node per level.
const treeDegree = 16

// Snapshot is the state of a resource at one resourceVersion. It never changes,
// and is safe for concurrent use. It holds no lock.
type Snapshot struct {
	tree     *tree
	rv       kube.ResourceVersion
	versions *versions // of the newest state; nil: the snapshot is of the past
}

// RV returns the resourceVersion at which the snapshot is exact.
func (s *Snapshot) RV() kube.ResourceVersion { return s.rv }

// Len returns the number of objects in all namespaces.
func (s *Snapshot) Len() int { return s.tree.Len() }

// Get returns one object.
func (s *Snapshot) Get(key wire.Key) (object *wire.Object, found bool) {
	return s.tree.Get(key.String())
}

// Lookup is Get by Key.String().
func (s *Snapshot) Lookup(key string) (object *wire.Object, found bool) { return s.tree.Get(key) }

// Scan yields the selected objects in the order of Key.String(), beginning with
// the first key >= start ("" is the first of all). It visits no more of the tree than
// the selection's namespace, and of a selection by name one key, or two per namespace.
func (s *Snapshot) Scan(start string, sel Selection) iter.Seq[*wire.Object] {
	return func(yield func(*wire.Object) bool) {
		if key, one := s.Single(sel); one {
			if o, found := s.tree.Get(key); found && key >= start && sel.Matches(o) {
				yield(o)
			}
			return
		}
		if sel.Name != "" {
			s.named(start, sel)(yield)
			return
		}
		prefix := ""
		if sel.Namespace != "" {
			prefix = sel.Namespace + "/"
		}
		check := sel.LooksInside()
		s.tree.Ascend(max(start, prefix), func(key string, o *wire.Object) bool {
			if !strings.HasPrefix(key, prefix) {
				return false
			}
			return (check && !sel.Matches(o)) || yield(o)
		})
	}
}

// named yields the objects of one name in all namespaces that the selection matches.
func (s *Snapshot) named(start string, sel Selection) iter.Seq[*wire.Object] {
	return func(yield func(*wire.Object) bool) {
		for at := start; ; {
			first := ""
			s.tree.Ascend(at, func(key string, _ *wire.Object) bool {
				first = key
				return false
			})
			namespace, _, _ := strings.Cut(first, "/")
			if first == "" {
				return
			}
			key := wire.Key{Namespace: namespace, Name: sel.Name}.String()
			if key >= first {
				if o, found := s.tree.Get(key); found && sel.Matches(o) && !yield(o) {
					return
				}
			}
			at = afterNamespace(namespace)
		}
	}
}

// afterNamespace returns the least key that follows all keys of a namespace.
func afterNamespace(namespace string) string { return namespace + string(rune('/'+1)) }

// Count returns how many objects have a key >= start, in one namespace or ("") in
// all. It looks at few of them: the tree knows how many it has.
func (s *Snapshot) Count(start, namespace string) int {
	if namespace == "" {
		return s.tree.Len() - s.rank(start)
	}
	prefix := namespace + "/"
	return s.rank(afterNamespace(namespace)) - s.rank(max(start, prefix))
}

// rank returns how many keys are less than key.
func (s *Snapshot) rank(key string) int {
	low, high := 0, s.tree.Len()
	for low < high {
		middle := (low + high) / 2
		if k, _, _ := s.tree.GetAt(middle); k < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Single says that the selection can have only one object in it, and its
// Key.String(). Whether the resource has namespaces is seen by its objects.
func (s *Snapshot) Single(sel Selection) (key string, one bool) {
	if sel.Name == "" {
		return "", false
	}
	if sel.Namespace != "" {
		return wire.Key{Namespace: sel.Namespace, Name: sel.Name}.String(), true
	}
	first, _, found := s.tree.Min()
	clusterScoped := found && !strings.Contains(first, "/")
	return sel.Name, clusterScoped
}
