package watchcache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/kube"
)

const (
	// keptSnapshots is how many exact snapshots a cache keeps for the pages of lists
	// in progress, and keepFor how long after their last use. None is kept behind the
	// window, so that all objects of a kept one are in the window or in the newest
	// state: it costs only the tree's nodes that differ, some 3 MiB for 4096 changes.
	keptSnapshots = 4
	keepFor       = 10 * time.Second
)

// ErrBehind is returned by At for a state older than the window: History can read
// it.
var ErrBehind = errors.New("the state is older than the window")

// exactSnapshots are the most recently used exact snapshots.
type exactSnapshots struct {
	// mu guards kept and ticking, and the copying of published trees: copying a tree
	// marks the original, though readers of it do not see the mark.
	mu      sync.Mutex
	kept    []keptSnapshot // most recently used first
	ticking bool           // expire will be called
}

type keptSnapshot struct {
	*Snapshot

	used time.Time
}

func (x *exactSnapshots) get(rv kube.ResourceVersion) *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range x.kept {
		if k.rv == rv {
			x.keepLocked(k.Snapshot)
			return k.Snapshot
		}
	}
	return nil
}

func (x *exactSnapshots) keep(s *Snapshot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keepLocked(s)
}

// keepLocked puts s in front, in the place of another one of the same resourceVersion
// or of the one that was used least recently.
func (x *exactSnapshots) keepLocked(s *Snapshot) {
	x.kept = slices.DeleteFunc(x.kept, func(k keptSnapshot) bool { return k.rv == s.rv })
	x.kept = slices.Insert(x.kept[:min(len(x.kept), keptSnapshots-1)], 0, keptSnapshot{s, time.Now()})
	if !x.ticking {
		x.ticking = true
		time.AfterFunc(keepFor, x.expire)
	}
}

// expire drops what was not used for keepFor. It is called again as long as
// anything is kept.
func (x *exactSnapshots) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kept = slices.DeleteFunc(x.kept, func(k keptSnapshot) bool { return time.Since(k.used) >= keepFor })
	if x.ticking = len(x.kept) > 0; x.ticking {
		time.AfterFunc(keepFor, x.expire)
	}
}

func (x *exactSnapshots) compact(before kube.ResourceVersion) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kept = slices.DeleteFunc(x.kept, func(k keptSnapshot) bool { return k.rv < before })
}

func (x *exactSnapshots) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.kept)
}

func (x *exactSnapshots) copyTree(t *tree) *tree {
	x.mu.Lock()
	defer x.mu.Unlock()
	return t.Copy()
}

// At returns the state exactly at rv; its RV is rv, also when nothing happened at
// it. It blocks for a future rv like WaitFresh, and asks History whether rv can
// still be read at all, so that memory and History agree. Errors: ErrBehind,
// *kube.TooLargeResourceVersionError, *kube.ExpiredError, ctx's cause, and errors
// of History.
func (c *Cache) At(ctx context.Context, rv kube.ResourceVersion) (*Snapshot, error) {
	if _, err := c.WaitFresh(ctx, rv); err != nil {
		return nil, err
	}
	if err := c.check(ctx, rv, kube.ExpiredList); err != nil {
		return nil, err
	}
	st := c.state.Load()
	switch {
	case rv >= st.last:
		return &Snapshot{tree: st.tree, rv: rv, versions: &c.versions}, nil
	case rv < st.log.gone:
		c.behind.Add(1)
		return nil, ErrBehind
	}
	if s := c.exact.get(rv); s != nil {
		return s, nil
	}
	s := &Snapshot{rv: rv, tree: c.undo(st, rv)}
	c.Keep(s)
	return s, nil
}

// Keep makes At return the snapshot for its resourceVersion without work, as long as
// it is one of the most recently used ones, has not expired, and the window reaches
// back to it. It is for a list in pages.
func (c *Cache) Keep(s *Snapshot) {
	c.exact.keep(s)
	if gone := c.state.Load().log.gone; s.rv < gone {
		c.exact.compact(gone) // the window has moved meanwhile
	}
}

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
