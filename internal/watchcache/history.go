package watchcache

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/kube"
)

// History reads entries that are no longer in memory. It is declared here and
// implemented on the store. It must be safe for concurrent use.
type History interface {
	// Entries returns, in order, changes of the resource in a range. Every such change
	// with RV <= through was returned, and none above. It may return fewer than the
	// range allows, but without an error through is larger than After, and if through is inside
	// a hole, it is UpTo or the RV of the last entry, which says so. It returns
	// *kube.ExpiredError when a needed change in the range was removed; entries returned
	// together with an error are valid up to through.
	Entries(ctx context.Context, q Range) (entries []*Entry, through kube.ResourceVersion, err error)

	// Check returns *kube.ExpiredError of the given kind when the state at rv, or
	// the changes after it, can no longer be read. It reads nothing and is cheap: it
	// is called before reads of memory too. A future rv is not an error.
	Check(ctx context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error
}

// Range selects changes that History is to return: those with After < RV <= UpTo.
type Range struct {
	After, UpTo kube.ResourceVersion
	// Since is from where the reader has got all changes up to After, so that it may be inside a
	// hole.
	Since kube.ResourceVersion
	// Selection says who will see the changes. Those of other namespaces and names may be
	// left out. Entry.Previous is required where the selection needs it, and
	// not otherwise. nil is everything.
	Selection *Selection
	// MaxEntries and MaxBytes bound the entries and the objects in them, except those of a single
	// RV, which always come together. 0 is no bound.
	MaxEntries int
	MaxBytes   int
}

// previous reports whether an entry without a required previous object is an error.
func (q Range) previous() bool { return q.Selection != nil && q.Selection.NeedsPrevious() }

// read returns the next part of a range of History, in batches as cursors return them, and
// checks it. Errors: those of History; entries returned together with one are valid.
func (c *Cache) read(ctx context.Context, q Range) (entries []*Entry, through kube.ResourceVersion, err error) {
	c.behind.Add(1)
	q.MaxEntries, q.MaxBytes = maxBatchEvents, maxBatchBytes
	entries, through, err = c.history.Entries(ctx, q)
	through = min(through, q.UpTo)
	pos := q.After
	for i, e := range entries {
		switch {
		case e.RV > through:
			return entries[:i], through, err
		case e.RV < pos, e.RV == q.After:
			return nil, q.After, fmt.Errorf("history after %d is out of order: entry %d after %d", q.After, e.RV, pos)
		case e.Replaces && e.Previous == nil && q.previous():
			return nil, q.After, fmt.Errorf("history after %d: entry %d has no previous object", q.After, e.RV)
		}
		pos = e.RV
		c.learn(e.Hole)
	}
	if err == nil && through <= q.After {
		err = fmt.Errorf("history between %d and %d makes no progress", q.After, q.UpTo)
	}
	return entries, through, err
}

// noHistory is used where a cache has only its memory.
type noHistory struct{ cache *Cache }

func (h noHistory) Entries(_ context.Context, q Range) ([]*Entry, kube.ResourceVersion, error) {
	return nil, q.After, h.expired(q.After, kube.ExpiredWatch)
}

// check returns *kube.ExpiredError of the given kind when the state at rv, or the changes after it,
// can no longer be read, or never could. Errors also: those of History.
func (c *Cache) check(ctx context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	if h := c.state.Load().hole(rv); h != nil {
		return h.expired(rv, kind)
	}
	return c.history.Check(ctx, rv, kind)
}

func (h noHistory) Check(_ context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	if rv >= h.cache.state.Load().log.gone {
		return nil
	}
	return h.expired(rv, kind)
}

func (h noHistory) expired(rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	return &kube.ExpiredError{Requested: rv, Oldest: h.cache.state.Load().log.gone, Kind: kind}
}
