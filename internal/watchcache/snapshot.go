package watchcache

import (
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/kube"
)

// tree holds objects by Key.String(), whose byte order is the order of lists.
type tree = btree.Map[string, *kube.Object]

// treeDegree is the B-tree's degree: nodes of up to 31 objects, as upstream's
// (cacher's snapshots use 16; server.md 4). A change copies one node per level.
const treeDegree = 16

// Snapshot is the state of a resource at one resourceVersion. It never changes,
// and is safe for concurrent use. It holds no lock.
type Snapshot struct {
	tree *tree
	rv   kube.ResourceVersion
}

// RV returns the resourceVersion at which the snapshot is exact.
func (s *Snapshot) RV() kube.ResourceVersion { return s.rv }

// Len returns the number of objects in all namespaces.
func (s *Snapshot) Len() int { return s.tree.Len() }

// Get returns one object.
func (s *Snapshot) Get(key kube.Key) (object *kube.Object, found bool) {
	return s.tree.Get(key.String())
}

// Scan yields the selected objects in the order of Key.String(), beginning with
// the first key >= start ("" is the first of all). It visits no more of the tree
// than the selection's namespace, or one key when it names one.
func (s *Snapshot) Scan(start string, sel Selection) iter.Seq[*kube.Object] {
	return func(yield func(*kube.Object) bool) {
		if key, one := s.single(sel); one {
			if o, found := s.tree.Get(key); found && key >= start && sel.Matches(o) {
				yield(o)
			}
			return
		}
		prefix := ""
		if sel.Namespace != "" {
			prefix = sel.Namespace + "/"
		}
		check := sel.Name != "" || sel.selects()
		s.tree.Ascend(max(start, prefix), func(key string, o *kube.Object) bool {
			if !strings.HasPrefix(key, prefix) {
				return false
			}
			return (check && !sel.Matches(o)) || yield(o)
		})
	}
}

// Count returns how many objects have a key >= start, in one namespace or ("") in
// all. It looks at few of them: the tree knows how many it has.
func (s *Snapshot) Count(start, namespace string) int {
	if namespace == "" {
		return s.tree.Len() - s.rank(start)
	}
	prefix := namespace + "/"
	end := namespace + string(rune('/'+1)) // the first key that is not the namespace's
	return s.rank(end) - s.rank(max(start, prefix))
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

// single says that the selection can have only one object in it, and its key.
func (s *Snapshot) single(sel Selection) (key string, one bool) {
	if sel.Name == "" {
		return "", false
	}
	if sel.Namespace != "" {
		return kube.Key{Namespace: sel.Namespace, Name: sel.Name}.String(), true
	}
	first, _, found := s.tree.Min()
	clusterScoped := found && !strings.Contains(first, "/")
	return sel.Name, clusterScoped
}
