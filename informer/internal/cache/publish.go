package cache

import (
	"slices"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/index"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/kube"
)

// Update is the step from one snapshot to the next. It is valid during the call that
// it is passed to.
type Update[T handle.Object] struct {
	// RV is the resource version of the next snapshot.
	RV string
	// Whole says that the whole state was read: objects that Changes lacks are unchanged.
	Whole bool
	// Rewritten says that the state is of another history of the server than the one before.
	Rewritten bool
	// Changes are in order. Tree is the state after them.
	Changes []state.Change[T]
	Tree    state.Tree[T]
}

// merge makes the next snapshot of the changes of one stream, and says so when no lock is
// held any more.
func (c *Cache[T]) merge(s *stream[T], changes []state.Change[T], rv string, read reflector.Extent) {
	if c.next(s, changes, rv, read) {
		c.hooks.Published()
	}
	c.ReportNoted()
}

// next makes the next snapshot. It returns false if there is none yet.
func (c *Cache[T]) next(s *stream[T], changes []state.Change[T], rv string, read reflector.Extent) (published bool) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	now := c.current.Load()
	back, whole := read == reflector.Rewritten || kube.OlderRV(rv, c.positions[s.place]), read != reflector.Events
	c.positions[s.place] = rv
	tree := s.reflector.Tree()
	if len(c.streams) > 1 {
		c.merged.Apply(changes)
		tree, rv = c.merged, oldest(c.positions)
		if rv == "" {
			return false // other streams have not been read yet
		}
		whole = now.RV == ""
		if whole {
			changes = changes[:0:0]
			state.Diff(now.Tree, tree, rv, func(change state.Change[T]) bool {
				changes = append(changes, change)
				return true
			})
		}
	}
	if c.mirror != nil {
		c.mirror(Update[T]{RV: rv, Whole: whole, Rewritten: back, Changes: changes, Tree: tree})
	}
	next := c.successor(now, tree, changes)
	next.RV = rv
	if back {
		next.Epoch++
	}
	c.publish(next, changes, now.RV == "")
	return true
}

// Note keeps an incident of an index function, which is called while a lock is held, for
// ReportNoted.
func (c *Cache[T]) Note(in incident.Incident) {
	c.noting.Lock()
	defer c.noting.Unlock()
	c.noted = append(c.noted, in)
}

// ReportNoted reports the incidents that were noted. The caller holds no lock.
func (c *Cache[T]) ReportNoted() {
	c.noting.Lock()
	noted := c.noted
	c.noted = nil
	c.noting.Unlock()
	for _, in := range noted {
		c.hooks.Report(in)
	}
}

// successor returns the snapshot after changes, which are in tree. publishing must be
// held.
func (c *Cache[T]) successor(now *Snapshot[T], tree state.Tree[T], changes []state.Change[T]) *Snapshot[T] {
	next := &Snapshot[T]{Tree: now.Tree, Epoch: now.Epoch, indices: now.indices, superseded: make(chan struct{})}
	if len(c.streams) > 1 {
		next.positions = slices.Clone(c.positions)
	}
	if len(changes) > 0 {
		next.Tree = tree.Copy()
		next.indices = make([]any, len(now.indices))
		for n, indexer := range c.indexers {
			next.indices[n] = indexer(now.indices[n], changes)
		}
	}
	return next
}

// publish makes next the current snapshot and passes the changes to the handlers.
// first says that it is the first complete state. publishing must be held.
func (c *Cache[T]) publish(next *Snapshot[T], changes []state.Change[T], first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.current.Swap(next).superseded)
	for _, h := range c.handlers {
		if len(changes) > 0 {
			c.feedLocked(h, changes, first)
		}
		if first {
			h.Prime()
		}
	}
	if first {
		close(c.synced)
	}
}

// AddIndex adds an index of f to the cache, of the current snapshot and all that
// follow, and returns its place in them. It returns when the index is complete. The caller
// calls ReportNoted.
func AddIndex[T handle.Object, V comparable](c *Cache[T], f *index.Function[T, V]) (place int) {
	from := c.current.Load()
	built := f.Build(from.Tree)
	c.publishing.Lock()
	defer c.publishing.Unlock()
	now := c.current.Load()
	now.Changes(from, func(change state.Change[T]) bool {
		built.Apply(change)
		return true
	})
	place = len(c.indexers)
	c.indexers = append(c.indexers, func(indexed any, changes []state.Change[T]) any {
		return stateOf[T, V](indexed).Next(changes)
	})
	next := *now
	next.indices = append(slices.Clip(next.indices), built)
	next.superseded = make(chan struct{})
	c.current.Store(&next)
	close(now.superseded)
	return place
}

// Index returns the index of f at a place of a snapshot, or nil if the snapshot is of
// another cache or older than the index.
func Index[T handle.Object, V comparable](s *Snapshot[T], place int, f *index.Function[T, V]) *index.State[T, V] {
	if place >= len(s.indices) {
		return nil
	}
	// Another cache has an index of another function here.
	if st, is := s.indices[place].(*index.State[T, V]); is && st.Of(f) {
		return st
	}
	return nil
}

func stateOf[T handle.Object, V comparable](indexed any) *index.State[T, V] {
	st, is := indexed.(*index.State[T, V])
	if !is {
		panic("informer: another index is in this place")
	}
	return st
}
