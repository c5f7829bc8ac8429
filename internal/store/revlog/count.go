package revlog

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// tally is one count that was requested: of the keys of a span that exist at a revision.
type tally struct {
	index.Span

	revision int64

	// done is closed when n or err is there.
	done chan struct{}
	n    int64
	err  error
}

// countView returns the index for tallies, of which it refuses those that cannot be counted in
// it: an error for each, nil for the others. It is called by one goroutine at a time.
type countView func(all []*tally) (keys *index.KeyMap, refused []error)

// counter counts the keys of ranges that exist at a revision: it answers all tallies that wait
// with one walk over the index, which costs some 10 ms for 100 000 keys. It is safe for
// concurrent use.
type counter struct {
	turn chan struct{} // holds one token: its sender walks

	// mu guards waiting.
	mu      sync.Mutex
	waiting []*tally
}

func newCounter() *counter { return &counter{turn: make(chan struct{}, 1)} }

// count returns how many keys of s exist at a revision. Errors: those of view, ctx's cause.
func (c *counter) count(ctx context.Context, s index.Span, revision int64, view countView) (int64, error) {
	t := &tally{Span: s, revision: revision, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
	select {
	case c.turn <- struct{}{}:
		c.countAll(view)
		<-c.turn
	case <-t.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx) // the next walk counts in vain
	}
	<-t.done // closed by countAll, here or elsewhere
	return t.n, t.err
}

// countAll answers every tally that waits. The caller has the turn.
func (c *counter) countAll(view countView) {
	c.mu.Lock()
	all := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	keys, refused := view(all)
	valid := all[:0:0]
	for i, t := range all {
		if t.err = refused[i]; t.err == nil {
			valid = append(valid, t)
		}
	}
	walkOnce(keys, valid)
	for _, t := range all {
		close(t.done)
	}
}

// walkOnce counts all in one walk. What a key counts is mostly the same at every
// revision that is requested: it is added up once, and each tally takes the
// difference between its end and its beginning.
func walkOnce(keys *index.KeyMap, all []*tally) {
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b *tally) int { return cmp.Compare(a.Start, b.Start) })
	first, last := int64(math.MaxInt64), int64(0)
	for _, t := range all {
		first, last = min(first, t.revision), max(last, t.revision)
	}
	var open []*tally
	total := int64(0)
	nextEnd := ""
	keys.Ascend(all[0].Start, func(key string, h index.History) bool {
		for len(all) > 0 && all[0].Start <= key {
			all[0].n -= total
			open, all = append(open, all[0]), all[1:]
			nextEnd = earliestEnd(open)
		}
		if len(open) > 0 && key >= nextEnd {
			open = slices.DeleteFunc(open, func(t *tally) bool {
				if key < t.End {
					return false
				}
				t.n += total
				return true
			})
			nextEnd = earliestEnd(open)
		}
		if len(open) == 0 && len(all) == 0 {
			return false
		}
		i := h.At(last)
		if i < 0 {
			return true
		}
		if h.Versions[i].Revision <= first {
			if !h.Versions[i].Deleted {
				total++
			}
			return true
		}
		for _, t := range open {
			if i := h.At(t.revision); i >= 0 && !h.Versions[i].Deleted {
				t.n++
			}
		}
		return true
	})
	for _, t := range open {
		t.n += total
	}
}

func earliestEnd(open []*tally) string {
	end := ""
	for _, t := range open {
		if end == "" || t.End < end {
			end = t.End
		}
	}
	return end
}
