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
	"github.com/gapless-io/gapless/kube"
)

// change is one write as the oracle remembers it.
type change struct {
	rv       kube.ResourceVersion
	object   *kube.Object // nil for a deletion
	previous *kube.Object
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
	objects map[string]*kube.Object // after all changes
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
	i, _ := slices.BinarySearchFunc(o.changes, after+1, func(c change, rv kube.ResourceVersion) int { return cmp.Compare(c.rv, rv) })
	return i
}

func (o *oracle) stateAt(rv kube.ResourceVersion) map[string]*kube.Object {
	state := map[string]*kube.Object{}
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
		return describe(kube.Modified, c.rv, c.object, c.previous), true
	case is:
		return describe(kube.Added, c.rv, c.object, nil), true
	case was:
		return describe(kube.Deleted, c.rv, c.previous.WithResourceVersion(c.rv), c.previous), true
	}
	return "", false
}

// describe has everything of an event in it.
func describe(t kube.EventType, rv kube.ResourceVersion, object, previous *kube.Object) string {
	before := "-"
	if previous != nil {
		before = string(previous.JSON())
	}
	return fmt.Sprintf("%s %d %s before %s", t, rv, object.JSON(), before)
}

func described(tb testing.TB, e kube.WatchEvent) string {
	tb.Helper()
	return describe(e.Type, e.ResourceVersion, e.Object, e.Previous)
}

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

// oracleHistory answers from the oracle's list. Without rand it returns as much as
// it may, with it often less.
type oracleHistory struct {
	oracle *oracle
	rand   *rand.Rand
}

func (h *oracleHistory) Entries(ctx context.Context, after, upTo kube.ResourceVersion, limit int) ([]*watchcache.Entry, kube.ResourceVersion, error) {
	if ctx.Err() != nil {
		return nil, after, context.Cause(ctx)
	}
	if h.oracle.expired(after) {
		return nil, after, &kube.ExpiredError{Requested: after, Oldest: kube.ResourceVersion(h.oracle.floor.Load()), Kind: kube.ExpiredWatch}
	}
	if h.rand != nil {
		limit = 1 + h.rand.IntN(limit)
		if h.rand.IntN(3) == 0 { // no more than a part of the range, perhaps without an entry
			upTo = after + 1 + kube.ResourceVersion(h.rand.Uint64N(uint64(upTo-after)))
		}
	}
	var entries []*watchcache.Entry
	for _, c := range h.oracle.changes[h.oracle.after(after):] {
		if c.rv > upTo {
			break
		}
		if len(entries) == limit {
			return entries, entries[limit-1].RV, nil
		}
		entries = append(entries, c.entry())
	}
	return entries, upTo, nil
}

func (h *oracleHistory) ObjectsAt(_ context.Context, rv kube.ResourceVersion) ([]*kube.Object, error) {
	if h.oracle.expired(rv) {
		return nil, &kube.ExpiredError{Requested: rv, Oldest: kube.ResourceVersion(h.oracle.floor.Load()), Kind: kube.ExpiredList}
	}
	state := h.oracle.stateAt(rv)
	var objects []*kube.Object
	for _, key := range slices.Sorted(mapKeys(state)) {
		objects = append(objects, state[key])
	}
	return objects, nil
}
