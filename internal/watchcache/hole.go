package watchcache

import (
	"slices"

	"github.com/gapless-io/gapless/kube"
)

// Hole is a part of history of which only the difference is known, between the states at From and
// at To: see store.Hole. A reader at From or before gets the difference, and goes on; in between
// nobody can begin.
type Hole struct{ From, To kube.ResourceVersion }

// has reports whether rv is inside, where no state is known.
func (h Hole) has(rv kube.ResourceVersion) bool { return h.From < rv && rv < h.To }

func (h Hole) expired(rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	return &kube.ExpiredError{Requested: rv, Oldest: h.To, Reason: kube.ReasonUnseen, Kind: kind}
}

// AppendHole is Append of the whole difference over a hole, which may be empty. The hole may not
// overlap others, and nothing was published after From. Snapshots are at To at once. Cursors that
// are open go on, except one that waits inside: it has come from another server that saw more, and
// what it lacks is not known. Without entries AppendHole may be called again.
func (c *Cache) AppendHole(h Hole, entries ...*Entry) {
	if len(entries) > 0 || !slices.Contains(c.state.Load().holes, h) {
		c.append(h, entries)
	}
}

// learn notes a hole that History has read, from before the cache was loaded. nil is none.
func (c *Cache) learn(h *Hole) {
	if h == nil || slices.Contains(c.state.Load().holes, *h) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.state.Load()
	if slices.Contains(next.holes, *h) {
		return
	}
	next.holes = append(slices.Clip(next.holes), *h)
	c.state.Store(&next)
}

// hole returns the hole that rv is inside of, or nil. Holes are never forgotten: each takes 16 bytes
// and stands for an outage that was longer than the storage keeps history.
func (s *state) hole(rv kube.ResourceVersion) *Hole {
	for i := range s.holes {
		if s.holes[i].has(rv) {
			return &s.holes[i]
		}
	}
	return nil
}

// Resumable returns the resourceVersion, at or before rv, from which a reader that has got everything
// up to rv can continue: rv, or where the hole begins that rv is inside of.
func (k *Cursor) Resumable(rv kube.ResourceVersion) kube.ResourceVersion {
	if h := k.cache.state.Load().hole(rv); h != nil {
		return h.From
	}
	return rv
}
