package watchcache_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// change is one write as the oracle remembers it.
type change struct {
	rv       kube.ResourceVersion
	object   *wire.Object // nil for a deletion
	previous *wire.Object
	shared   bool             // others have the same rv, or could have it
	hole     *watchcache.Hole // of whose difference it is; nil: of none
}

func (c change) entry() *watchcache.Entry {
	switch {
	case c.object != nil:
		return watchcache.NewEntry(c.rv, c.object, c.previous)
	case c.shared:
		return watchcache.NewSharedDeletion(c.rv, c.previous)
	}
	return watchcache.NewDeletion(c.rv, c.previous)
}

func (c change) key() string {
	if c.object == nil {
		return c.previous.Key().String()
	}
	return c.object.Key().String()
}

// shown is the resourceVersion of the event.
func (c change) shown() kube.ResourceVersion {
	if c.object == nil && c.shared {
		return c.rv - 1
	}
	return c.rv
}

// oracle is the whole truth about a resource: a list and a map.
type oracle struct {
	changes []change
	objects map[string]*wire.Object // after all changes
	// floor is the oldest resourceVersion that history still answers for.
	floor atomic.Uint64
	holes []watchcache.Hole
}

// write makes a random change at rv: of a key that has not changed at it yet, and after a put no
// deletion.
func (o *oracle) write(tb testing.TB, r *rand.Rand, rv kube.ResourceVersion) change {
	tb.Helper()
	same := o.changes[o.after(rv-1):]
	var what thing
	for key := ""; key == "" || slices.ContainsFunc(same, func(c change) bool { return c.key() == key }); {
		what = thing{
			namespace: []string{"a", "a-b", "b"}[r.IntN(3)],
			name:      fmt.Sprintf("o%d", r.IntN(7)),
			app:       []string{"web", "db", "none"}[r.IntN(3)],
			node:      []string{"n1", "n2"}[r.IntN(2)],
			size:      r.IntN(200),
		}
		key = what.namespace + "/" + what.name
	}
	key := what.namespace + "/" + what.name
	c := change{rv: rv, previous: o.objects[key]}
	put := slices.ContainsFunc(same, func(c change) bool { return c.object != nil })
	if c.previous != nil && !put && r.IntN(3) == 0 {
		delete(o.objects, key)
	} else {
		c.object = what.at(tb, rv)
		o.objects[key] = c.object
	}
	o.changes = append(o.changes, c)
	return c
}

// share says of the changes at rv that they are several, and returns them.
func (o *oracle) share(rv kube.ResourceVersion) []change {
	same := o.changes[o.after(rv-1):]
	for i := range same {
		same[i].shared = len(same) > 1
	}
	return same
}

// together makes n random changes at rv.
func (o *oracle) together(tb testing.TB, r *rand.Rand, rv kube.ResourceVersion, n int) []change {
	tb.Helper()
	for range n {
		o.write(tb, r, rv)
	}
	return o.share(rv)
}

// miss replaces the changes after rv by their difference, as a store does that has not seen them,
// and returns it.
func (o *oracle) miss(h watchcache.Hole) []change {
	n := o.after(h.From)
	unseen := o.changes[n:]
	first, deleted := map[string]change{}, map[string]bool{}
	for _, c := range unseen {
		if _, known := first[c.key()]; !known {
			first[c.key()] = c
		}
		deleted[c.key()] = deleted[c.key()] || c.object == nil
	}
	var difference []change
	for _, c := range unseen {
		if c == first[c.key()] && c.previous != nil && deleted[c.key()] {
			difference = append(difference, change{rv: h.From + 1, previous: c.previous, shared: true, hole: &h})
		}
	}
	for _, c := range unseen {
		if key := c.key(); c.object == o.objects[key] && c.object != nil {
			c.previous, c.hole = first[key].previous, &h
			if deleted[key] {
				c.previous = nil
			}
			difference = append(difference, c)
		}
	}
	o.changes = append(o.changes[:n:n], difference...)
	o.holes = append(o.holes, h)
	return difference
}

// inside returns the hole in which no state is known, nil if rv is in none.
func (o *oracle) inside(rv kube.ResourceVersion) *watchcache.Hole {
	for _, h := range o.holes {
		if h.From < rv && rv < h.To {
			return &h
		}
	}
	return nil
}

// compact removes history up to upTo. The floor is where the last thing that it
// removed had been superseded: creations remove nothing.
func (o *oracle) compact(upTo kube.ResourceVersion) {
	for _, c := range o.changes {
		if c.rv <= upTo && c.previous != nil {
			o.floor.Store(max(o.floor.Load(), uint64(c.rv)))
		}
	}
}

func (o *oracle) expired(rv kube.ResourceVersion) bool {
	return uint64(rv) < o.floor.Load() || o.inside(rv) != nil
}

// after returns the index of the first change with rv > after.
func (o *oracle) after(after kube.ResourceVersion) int {
	i, _ := slices.BinarySearchFunc(o.changes, after+1, func(c change, rv kube.ResourceVersion) int {
		return cmp.Compare(c.rv, rv)
	})
	return i
}

func (o *oracle) stateAt(rv kube.ResourceVersion) map[string]*wire.Object {
	state := map[string]*wire.Object{}
	for _, c := range o.changes {
		switch {
		case c.rv > rv:
			return state
		case c.object == nil:
			delete(state, c.previous.Key().String())
		default:
			state[c.object.Key().String()] = c.object
		}
	}
	return state
}

// expect returns the event that a watcher of sel sees for c, written as a line.
func expect(c change, sel watchcache.Selection) (line string, concerned bool) {
	was := c.previous != nil && sel.Matches(c.previous)
	is := c.object != nil && sel.Matches(c.object)
	switch {
	case is && was:
		return describe(kube.Modified, c.rv, c.object), true
	case is:
		return describe(kube.Added, c.rv, c.object), true
	case was:
		return describe(kube.Deleted, c.shown(), c.previous.WithResourceVersion(c.shown())), true
	}
	return "", false
}

// describe has everything of an event in it.
func describe(t kube.EventType, rv kube.ResourceVersion, object *wire.Object) string {
	return fmt.Sprintf("%s %d %s", t, rv, object.JSON())
}

func described(e wire.WatchEvent) string { return describe(e.Type, e.ResourceVersion, e.Object) }

func randomSelection(r *rand.Rand) watchcache.Selection {
	var sel watchcache.Selection
	if r.IntN(3) == 0 {
		sel.Namespace = []string{"a", "a-b", "b"}[r.IntN(3)]
	}
	if r.IntN(6) == 0 {
		sel.Name = fmt.Sprintf("o%d", r.IntN(7))
	}
	if r.IntN(3) == 0 {
		sel.Labels = labels.SelectorFromSet(labels.Set{"app": []string{"web", "db", "nobody"}[r.IntN(3)]})
	}
	if r.IntN(4) == 0 {
		sel.Fields = fields.OneTermEqualSelector("spec.node", []string{"n1", "n2"}[r.IntN(2)])
	}
	return sel
}

// oracleHistory answers from the oracle's list. Without rand it returns all that is
// selected and no previous objects that are not required. With it it returns often
// fewer entries and sometimes more of them and of previous objects than it must, and it
// returns an entry again that it returned before.
type oracleHistory struct {
	oracle *oracle
	rand   *rand.Rand
	made   map[change]*watchcache.Entry
}

func (h *oracleHistory) Entries(ctx context.Context, q watchcache.Range) ([]*watchcache.Entry, kube.ResourceVersion, error) {
	after, upTo, limit := q.After, q.UpTo, q.MaxEntries
	if ctx.Err() != nil {
		return nil, after, context.Cause(ctx)
	}
	if hole := h.oracle.inside(after); hole != nil && (q.Since == 0 || q.Since > hole.From) {
		return nil, after, unseenAt(after, hole, kube.ExpiredWatch)
	}
	if uint64(after) < h.oracle.floor.Load() {
		return nil, after, &kube.ExpiredError{
			Requested: after, Oldest: kube.ResourceVersion(h.oracle.floor.Load()), Kind: kube.ExpiredWatch,
		}
	}
	if h.rand != nil {
		limit = 1 + h.rand.IntN(1+h.rand.IntN(limit))
		if h.rand.IntN(3) == 0 { // no more than a part of the range, perhaps without an entry
			upTo = after + 1 + kube.ResourceVersion(h.rand.Uint64N(uint64(upTo-after)))
			if h.oracle.inside(upTo) != nil {
				upTo = q.UpTo
			}
		}
	}
	var entries []*watchcache.Entry
	size := 0
	for _, c := range h.oracle.changes[h.oracle.after(after):] {
		if c.rv > upTo {
			break
		}
		if !h.selected(c, q.Selection) {
			continue
		}
		e := h.entry(c, q.Selection)
		size += len(e.Object.JSON())
		if n := len(entries); n > 0 && c.rv > entries[n-1].RV && (n >= limit || size > q.MaxBytes) {
			return entries, entries[n-1].RV, nil
		}
		entries = append(entries, e)
	}
	return entries, upTo, nil
}

// selected says whether c is returned: it may be left out if its key is not selected.
func (h *oracleHistory) selected(c change, sel *watchcache.Selection) bool {
	o := c.object
	if o == nil {
		o = c.previous
	}
	return watchcache.Selection{Namespace: sel.Namespace, Name: sel.Name}.Matches(o) || h.rand != nil && h.rand.IntN(2) == 0
}

// entry returns c, perhaps without its previous object where that is not required.
func (h *oracleHistory) entry(c change, sel *watchcache.Selection) *watchcache.Entry {
	required := sel.LooksInside()
	if e := h.made[c]; e != nil && (e.Previous != nil || !e.Replaces || !required) && h.rand.IntN(2) == 0 {
		return e
	}
	e := c.entry()
	e.Hole = c.hole
	if !e.Deleted && !required && (h.rand == nil || h.rand.IntN(2) == 0) {
		e.Previous = nil
	}
	if h.rand != nil {
		if h.made == nil {
			h.made = map[change]*watchcache.Entry{}
		}
		h.made[c] = e
	}
	return e
}

func unseenAt(rv kube.ResourceVersion, h *watchcache.Hole, kind kube.ExpiredKind) error {
	return &kube.ExpiredError{Requested: rv, Oldest: h.To, Reason: kube.ReasonUnseen, Kind: kind}
}

func (h *oracleHistory) Check(_ context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	if hole := h.oracle.inside(rv); hole != nil {
		return unseenAt(rv, hole, kind)
	}
	if h.oracle.expired(rv) {
		return &kube.ExpiredError{Requested: rv, Oldest: kube.ResourceVersion(h.oracle.floor.Load()), Kind: kind}
	}
	return nil
}
