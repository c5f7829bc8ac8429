package watchcache

import (
	"strings"
	"sync"
	"weak"
)

// versionsFrom is from how many objects on versions are remembered: fewer are read as fast, and so there are few namespaces
// of which any are.
const versionsFrom = 256

// versions identifies the objects of one state (wire.Key.Version), for lists of it that are asked for again: to look at
// each object is a third of a list whose parts are kept. It takes 8 bytes for an object, and keeps no state in memory.
type versions struct {
	mu sync.Mutex
	of weak.Pointer[tree]
	// by has those of each namespace, and of all under "", that was asked for; nil after the first time.
	by map[string][]uint64
}

// Versions identifies the objects in a namespace, or ("") all, by wire.Key.Version, in the order of Scan. They are shared,
// and not to be changed. It returns nil when they are not known: for the first who asks about a state, since most lists are
// asked for once, for a few objects, and for a snapshot of the past.
func (s *Snapshot) Versions(namespace string) []uint64 {
	if s.versions == nil {
		return nil
	}
	n := s.Count("", namespace)
	if n < versionsFrom {
		return nil
	}
	if known, asked := s.versions.get(s.tree, namespace); known != nil || !asked {
		return known
	}
	all := make([]uint64, 0, n)
	for o := range s.Scan("", Selection{Namespace: namespace}) {
		all = append(all, o.Key().Version(o.ResourceVersion()))
	}
	s.versions.put(s.tree, namespace, all)
	return all
}

// get returns what is known about a state, and whether it was asked for before.
func (v *versions) get(t *tree, namespace string) (known []uint64, asked bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if of := weak.Make(t); v.of != of {
		v.of, v.by = of, map[string][]uint64{}
	}
	known, asked = v.by[namespace]
	if !asked {
		v.by[strings.Clone(namespace)] = nil // it is a part of a request
	}
	return known, asked
}

// put remembers what is known about a state, if it is still the last one that was asked about.
func (v *versions) put(t *tree, namespace string, all []uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, asked := v.by[namespace]; asked && v.of == weak.Make(t) {
		v.by[namespace] = all
	}
}
