//go:build invariants

package watchcache

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// The invariants of ARCHITECTURE.md, checked where they could break. Each panics.

// positions are what checkPosition looks at.
type positions struct{ start, before, now, state kube.ResourceVersion }

// replayEvery is how often the whole window is undone and replayed.
const replayEvery = 16

func assert(holds bool, format string, args ...any) {
	if !holds {
		panic("watchcache: invariant broken: " + fmt.Sprintf(format, args...))
	}
}

// checkState: revisions increase, and none is split by the window's beginning (2), the window
// accounts for what it has, and snapshot(a) + entries(a, b] = snapshot(b) (1).
func checkState(st *state) {
	at, count, size := st.log.gone, 0, int64(0)
	for e := range st.log.after(0) {
		assert(e.RV > at || e.RV == at && count > 0, "2: entry %d after %d", e.RV, at)
		at = e.RV
		count++
		size += e.size()
	}
	ends := slices.ContainsFunc(st.holes, func(h Hole) bool { return h.To == st.last && at < h.To })
	assert(count == 0 || at == st.last || ends, "2: newest entry %d, state at %d", at, st.last)
	assert(count == st.log.count && size == st.log.bytes,
		"window of %d entries and %d bytes claims %d and %d", count, size, st.log.count, st.log.bytes)
	if st.last%replayEvery == 0 {
		checkReplay(st)
	}
}

func checkReplay(st *state) {
	// Not t.Copy of the published tree, which readers may be copying too.
	t := treeOf(slices.Collect((&Snapshot{tree: st.tree}).Scan("", Selection{})))
	for e := range st.log.newestFirst(st.log.gone) {
		key := e.Object.Key().String()
		now, _ := t.Get(key)
		assert(e.Deleted == (now == nil), "1: entry %d: deleted is %t", e.RV, e.Deleted)
		assert(e.Deleted || now == e.Object, "1: entry %d is not the state of %s after it", e.RV, key)
		if e.Previous == nil {
			t.Delete(key)
		} else {
			t.Set(key, e.Previous)
		}
	}
	for e := range st.log.after(st.log.gone) {
		if key := e.Object.Key().String(); e.Deleted {
			t.Delete(key)
		} else {
			t.Set(key, e.Object)
		}
	}
	assert(t.Len() == st.tree.Len(), "1: replay has %d objects, the state %d", t.Len(), st.tree.Len())
	t.Scan(func(key string, o *wire.Object) bool {
		now, _ := st.tree.Get(key)
		assert(now == o, "1: replay differs from the state at %s", key)
		return true
	})
}

// checkEntry: an entry says what the cache holds (1) and carries its own rv (6). In a mirror a
// deletion that was not seen has the resourceVersion of the state before it, as a deletion that
// shares its rv does.
func checkEntry(e *Entry, held *wire.Object, mirror bool) {
	shown := e.Object.ResourceVersion()
	before := mirror || e.Deleted && shown == e.RV-1
	assert(before || shown == e.RV, "6: entry %d with an object at %d", e.RV, shown)
	assert(!e.Deleted || held != nil, "1: entry %d deletes %s, which is not there", e.RV, e.Object.Key())
	assert(held == nil || held.ResourceVersion() < shown || before && e.Deleted && held.ResourceVersion() == shown,
		"2: entry %d replaces a newer object", e.RV)
	if e.Previous != nil {
		assert(held != nil && held.ResourceVersion() == e.Previous.ResourceVersion(),
			"1: entry %d replaces what the cache does not hold", e.RV)
	}
}

// checkWindow: the walk from a position finds every entry after it (3).
func checkWindow(w window, pos kube.ResourceVersion) {
	assert(pos >= w.gone, "3: read from %d, memory begins after %d", pos, w.gone)
	var all []*Entry
	for i := range len(w.full) + 1 {
		for _, e := range w.chunk(i).entries {
			if e.RV > pos {
				all = append(all, e)
			}
		}
	}
	assert(slices.Equal(all, slices.Collect(w.after(pos))), "3: the walk from %d misses an entry", pos)
}

// checkEvent: a stream never repeats or goes back (2); a deletion carries the
// last content and the rv of the write (6).
func checkEvent(e wire.WatchEvent, by *Entry, sel *Selection, pos kube.ResourceVersion) {
	assert(by.RV >= pos, "2: entry %d at position %d", by.RV, pos) // the same: others of it are in the batch
	assert(e.Object.ResourceVersion() == e.ResourceVersion, "6: event %d shows an object at %d",
		e.ResourceVersion, e.Object.ResourceVersion())
	assert(e.Type == kube.Added || by.Replaces, "6: %s event %d of what was not there before", e.Type, e.ResourceVersion)
	if e.Type == kube.Deleted {
		last := formOf(by.before(), sel.Read)
		if form := sel.Form; form != nil && form.Convert != nil {
			last = form.Convert(last)
		}
		assert(bytes.Equal(e.Object.Value(), last.Value()), "6: DELETED %d does not carry the last content", e.ResourceVersion)
	}
}

// checkPosition: a bookmark promises no more than was considered (5).
func checkPosition(p positions) {
	assert(p.now >= p.before, "5: position went back from %d to %d", p.before, p.now)
	assert(p.now <= max(p.state, p.start), "5: position %d is ahead of the state at %d", p.now, p.state)
}

// checkSkipped: entries that did not wake a waiter do not match it (3).
func checkSkipped(log window, w *waiter, through kube.ResourceVersion) {
	for e := range log.after(max(w.pos, log.gone)) {
		assert(e.RV > through || w.sel.transition(e) == 0, "3: entry %d did not wake the cursor that waited at %d", e.RV, w.pos)
	}
}
