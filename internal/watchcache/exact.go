package watchcache

import (
	"context"
	"slices"
	"sync"

	"github.com/gapless-io/gapless/kube"
)

// keptSnapshots is how many exact snapshots a cache keeps for the pages of lists
// under way. They share all but the changed nodes with the newest state.
const keptSnapshots = 4

// exactSnapshots are the most recently used exact snapshots.
type exactSnapshots struct {
	// mu guards kept, and the copying of published trees: copying a tree marks
	// the original, though readers of it do not see the mark.
	mu   sync.Mutex
	kept []*Snapshot // most recently used first
}

func (x *exactSnapshots) get(rv kube.ResourceVersion) *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, s := range x.kept {
		if s.rv == rv {
			copy(x.kept[1:], x.kept[:i])
			x.kept[0] = s
			return s
		}
	}
	return nil
}

func (x *exactSnapshots) keep(s *Snapshot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.ContainsFunc(x.kept, func(other *Snapshot) bool { return other.rv == s.rv }) {
		return
	}
	if len(x.kept) < keptSnapshots {
		x.kept = append(x.kept, nil)
	}
	copy(x.kept[1:], x.kept)
	x.kept[0] = s
}

func (x *exactSnapshots) forget(before kube.ResourceVersion) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kept = slices.DeleteFunc(x.kept, func(s *Snapshot) bool { return s.rv < before })
}

func (x *exactSnapshots) copyTree(t *tree) *tree {
	x.mu.Lock()
	defer x.mu.Unlock()
	return t.Copy()
}

// At returns the state exactly at rv; its RV is rv, also when nothing happened at
// it. It blocks for a future rv like WaitFresh, and while History reads. Errors:
// *kube.TooLargeResourceVersionError, *kube.ExpiredError, ctx's cause, and what
// History returns.
func (c *Cache) At(ctx context.Context, rv kube.ResourceVersion) (*Snapshot, error) {
	if _, err := c.WaitFresh(ctx, rv); err != nil {
		return nil, err
	}
	st := c.state.Load()
	if rv >= st.last {
		return &Snapshot{tree: st.tree, rv: rv}, nil
	}
	if s := c.exact.get(rv); s != nil {
		return s, nil
	}
	s := &Snapshot{rv: rv}
	if rv >= st.log.gone {
		s.tree = c.undo(st, rv)
	} else {
		c.behind.Add(1)
		objects, err := c.history.ObjectsAt(ctx, rv)
		if err != nil {
			return nil, err
		}
		s.tree = treeOf(objects)
	}
	c.exact.keep(s)
	return s, nil
}

// Keep makes At answer for the snapshot's resourceVersion without work as long as
// it is one of the few most recently used. It is for a list that was cut into
// pages: the next page will come, and by then the window may have moved on.
func (c *Cache) Keep(s *Snapshot) { c.exact.keep(s) }

// undo takes back what happened after rv, newest first.
func (c *Cache) undo(st *state, rv kube.ResourceVersion) *tree {
	t := c.exact.copyTree(st.tree)
	for e := range st.log.newestFirst(rv) {
		if key := e.Object.Key().String(); e.Previous == nil {
			t.Delete(key)
		} else {
			t.Set(key, e.Previous)
		}
	}
	return t
}
