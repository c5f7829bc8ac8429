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
}

func (c change) entry() *watchcache.Entry {
	if c.object == nil {
		return watchcache.NewDeletion(c.rv, c.previous)
	}
	return watchcache.NewEntry(c.rv, c.object, c.previous)
}

// oracle is the whole truth about a resource: a list and a map.
type oracle struct {
	changes []change
	objects map[string]*wire.Object // after all changes
	// floor is the oldest resourceVersion that history still answers for.
	floor atomic.Uint64
}

// write makes a random change at rv.
func (o *oracle) write(tb testing.TB, r *rand.Rand, rv kube.ResourceVersion) change {
	tb.Helper()
	what := thing{
		namespace: []string{"a", "a-b", "b"}[r.IntN(3)],
		name:      fmt.Sprintf("o%d", r.IntN(7)),
		app:       []string{"web", "db", "none"}[r.IntN(3)],
		node:      []string{"n1", "n2"}[r.IntN(2)],
		size:      r.IntN(200),
	}
	key := what.namespace + "/" + what.name
	c := change{rv: rv, previous: o.objects[key]}
	if c.previous != nil && r.IntN(3) == 0 {
		delete(o.objects, key)
	} else {
		c.object = what.at(tb, rv)
		o.objects[key] = c.object
	}
	o.changes = append(o.changes, c)
	return c
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

func (o *oracle) expired(rv kube.ResourceVersion) bool { return uint64(rv) < o.floor.Load() }

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
		return describe(kube.Deleted, c.rv, c.previous.WithResourceVersion(c.rv)), true
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
	made   map[kube.ResourceVersion]*watchcache.Entry
}

func (h *oracleHistory) Entries(ctx context.Context, q watchcache.Range) ([]*watchcache.Entry, kube.ResourceVersion, error) {
	after, upTo, limit := q.After, q.UpTo, q.MaxEntries
	if ctx.Err() != nil {
		return nil, after, context.Cause(ctx)
	}
	if h.oracle.expired(after) {
		return nil, after, &kube.ExpiredError{
			Requested: after, Oldest: kube.ResourceVersion(h.oracle.floor.Load()), Kind: kube.ExpiredWatch,
		}
	}
	if h.rand != nil {
		limit = 1 + h.rand.IntN(limit)
		if h.rand.IntN(3) == 0 { // no more than a part of the range, perhaps without an entry
			upTo = after + 1 + kube.ResourceVersion(h.rand.Uint64N(uint64(upTo-after)))
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
		if n := len(entries); n > 0 && (n == limit || size > q.MaxBytes) {
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
	if e := h.made[c.rv]; e != nil && (e.Previous != nil || !e.Replaces || !required) && h.rand.IntN(2) == 0 {
		return e
	}
	e := c.entry()
	if !e.Deleted && !required && (h.rand == nil || h.rand.IntN(2) == 0) {
		e.Previous = nil
	}
	if h.rand != nil {
		if h.made == nil {
			h.made = map[kube.ResourceVersion]*watchcache.Entry{}
		}
		h.made[c.rv] = e
	}
	return e
}

func (h *oracleHistory) Check(_ context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	if h.oracle.expired(rv) {
		return &kube.ExpiredError{Requested: rv, Oldest: kube.ResourceVersion(h.oracle.floor.Load()), Kind: kind}
	}
	return nil
}
