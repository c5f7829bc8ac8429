package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// incarnate is write with a uid of its own for each life of a key.
func (o *oracle) incarnate(tb testing.TB, r *rand.Rand, rv kube.ResourceVersion) change {
	tb.Helper()
	c := o.write(tb, r, rv)
	if c.object == nil {
		return c
	}
	uid := fmt.Sprintf("u-%d", rv)
	if c.previous != nil {
		uid = string(c.previous.UID())
	}
	raw := strings.Replace(string(c.object.JSON()), `"uid":"`+string(c.object.UID())+`"`, `"uid":"`+uid+`"`, 1)
	object, err := wire.ParseObject([]byte(raw), fieldPaths)
	if err != nil || string(object.UID()) != uid {
		tb.Fatalf("object of the test: %s, %v", raw, err)
	}
	c.object = object
	o.objects[object.Key().String()] = object
	o.changes[len(o.changes)-1] = c
	return c
}

// selected is what a selection has of the state at rv, as JSON.
func (o *oracle) selected(rv kube.ResourceVersion, sel watchcache.Selection) map[string]string {
	out := map[string]string{}
	for key, object := range o.stateAt(rv) {
		if sel.Matches(object) {
			out[key] = string(object.JSON())
		}
	}
	return out
}

// TestModelDeltaTurnsOneStateIntoTheOther asks for deltas between random points,
// in memory and behind it, and applies them as strictly as a client can.
func TestModelDeltaTurnsOneStateIntoTheOther(t *testing.T) {
	met := map[string]int{}
	for _, seed := range seeds(t, 60) {
		t.Logf("seed %d", seed) // replay with -run Model -seed N
		r := random(seed)
		o := &oracle{objects: map[string]*wire.Object{}}
		rv := kube.ResourceVersion(1000)
		for range r.IntN(40) {
			rv += 1 + kube.ResourceVersion(r.IntN(3))
			o.incarnate(t, r, rv)
		}
		clock := watchcache.NewClock(rv)
		cache := watchcache.New(watchcache.Config{
			Clock: clock, History: &oracleHistory{oracle: o, rand: r},
			MaxEntries: 1 + r.IntN(60), MaxBytes: int64(2000 + r.IntN(40000)),
		})
		cache.Load(slices.Collect(maps.Values(o.stateAt(rv))), rv)
		var snapshots []*watchcache.Snapshot
		for range 150 {
			rv += 1 + kube.ResourceVersion(r.IntN(3))
			for range 1 + r.IntN(4)*r.IntN(2) {
				o.incarnate(t, r, rv)
			}
			var entries []*watchcache.Entry
			for _, c := range o.share(rv) {
				entries = append(entries, c.entry())
			}
			cache.Append(entries...)
			clock.Publish(rv + kube.ResourceVersion(r.IntN(2)))
			rv = clock.Published()
			switch r.IntN(12) {
			case 0:
				upTo := rv - kube.ResourceVersion(r.IntN(80))
				o.compact(upTo)
				cache.Forget(upTo)
			case 1, 2:
				snapshots = append(snapshots, cache.Snapshot())
			}
			if len(snapshots) > 0 {
				s := snapshots[r.IntN(len(snapshots))]
				checkDelta(t,
					deltaCase{
						oracle: o, cache: cache, to: s, from: s.RV() - kube.ResourceVersion(r.IntN(int(s.RV())-900)),
						sel: randomSelection(r),
					}, met)
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("met %v", met)
	for _, what := range []string{"ADDED", "MODIFIED", "DELETED", "expired", "nothing", "replaced"} {
		if met[what] == 0 {
			t.Errorf("the runs did not meet %s: %v", what, met)
		}
	}
}

type deltaCase struct {
	oracle *oracle
	cache  *watchcache.Cache
	from   kube.ResourceVersion
	to     *watchcache.Snapshot
	sel    watchcache.Selection
}

// checkDelta asks for one delta and compares state(from) + delta with state(to).
func checkDelta(t *testing.T, d deltaCase, met map[string]int) {
	t.Helper()
	events, err := d.cache.Since(t.Context(), d.from, d.to, d.sel)
	if _, expired := errors.AsType[*kube.ExpiredError](err); expired {
		met["expired"]++
		if !d.oracle.expired(d.from) {
			t.Errorf("%d up to %d: %v, but history goes back to it", d.from, d.to.RV(), err)
		}
		return
	}
	if d.oracle.expired(d.from) {
		t.Errorf("%d up to %d: answered below the floor %d", d.from, d.to.RV(), d.oracle.floor.Load())
	}
	if err != nil {
		t.Fatalf("%d up to %d: %v", d.from, d.to.RV(), err)
	}
	if len(events) == 0 {
		met["nothing"]++
	}
	shown := d.shown()
	state := d.oracle.selected(d.from, d.sel)
	uids := map[string]string{}
	for key, object := range d.oracle.stateAt(d.from) {
		uids[key] = string(object.UID())
	}
	last := map[string]string{}
	at := d.from
	for _, e := range events {
		key, body := e.Object.Key().String(), string(e.Object.JSON())
		met[e.Type.String()]++
		before, has := state[key]
		if has != (e.Type != kube.Added) || e.Type == kube.Modified && (before == body || uids[key] != string(e.Object.UID())) {
			t.Errorf("%d up to %d of %+v: %s %s after %q", d.from, d.to.RV(), d.sel, e.Type, body, before)
		}
		if e.ResourceVersion < at || e.ResourceVersion > d.to.RV() || e.ResourceVersion != e.Object.ResourceVersion() {
			t.Errorf("%s at %d after %d: %+v", e.Type, e.ResourceVersion, at, e)
		}
		if again := last[key]; again != "" && again+e.Type.String() != "DELETEDADDED" {
			t.Errorf("%s comes as %s and then as %s", key, again, e.Type)
		} else if again != "" {
			met["replaced"]++
		}
		if e.Type == kube.Deleted {
			if !shown[body] || uids[key] != string(e.Object.UID()) {
				t.Errorf("DELETED %s is nothing that a watcher would have seen of uid %s", body, uids[key])
			}
			delete(state, key)
		} else {
			state[key] = body
		}
		at, last[key] = e.ResourceVersion, e.Type.String()
	}
	if diff := cmp.Diff(d.oracle.selected(d.to.RV(), d.sel), state); diff != "" {
		t.Errorf("state(%d) and the delta of %+v are not state(%d) (-want +got):\n%s", d.from, d.sel, d.to.RV(), diff)
	}
}

// shown are the contents of the DELETED events that a watcher would have seen.
func (d deltaCase) shown() map[string]bool {
	shown := map[string]bool{}
	for _, c := range d.oracle.changes[d.oracle.after(d.from):] {
		was, is := c.previous != nil && d.sel.Matches(c.previous), c.object != nil && d.sel.Matches(c.object)
		if was && !is && c.rv <= d.to.RV() {
			shown[string(c.previous.WithResourceVersion(c.shown()).JSON())] = true
		}
	}
	return shown
}

func TestDeltaHasOneEventPerKey(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, thing{namespace: "a", name: "hot"}.at(t, 50),
		thing{namespace: "a", name: "gone"}.at(t, 60), thing{namespace: "a", name: "same"}.at(t, 70))
	rv := kube.ResourceVersion(loadedAt)
	for i := range 1000 {
		rv++
		f.put(rv, thing{namespace: "a", name: "hot", size: i % 7})
	}
	f.remove(rv+1, thing{namespace: "a", name: "gone"})
	f.put(rv+2, thing{namespace: "a", name: "passing"})
	f.remove(rv+3, thing{namespace: "a", name: "passing"})
	f.put(rv+4, thing{namespace: "a", name: "new"})
	events, err := f.cache.Since(t.Context(), loadedAt, f.cache.Snapshot(), watchcache.Selection{})
	want := []string{"MODIFIED 1100 a/hot", "DELETED 1101 a/gone", "ADDED 1104 a/new"}
	if diff := cmp.Diff(want, brief(events)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestDeltaThatCostsMoreThanTheStateIsRefused(t *testing.T) {
	t.Run("too many changes", func(t *testing.T) {
		f := newFixture(t, watchcache.Config{MaxEntries: 1 << 20, MaxBytes: 1 << 40})
		var entries []*watchcache.Entry
		for i := range 1<<16 + 1 {
			rv := kube.ResourceVersion(loadedAt + 1 + i)
			entries = append(entries, watchcache.NewEntry(rv, thing{namespace: "a", name: "hot"}.at(t, rv), nil))
		}
		f.cache.Append(entries...)
		f.clock.Publish(loadedAt + 1<<16 + 1)
		if events, err := f.cache.Since(t.Context(), loadedAt, f.cache.Snapshot(), watchcache.Selection{}); !errors.Is(err,
			watchcache.ErrDeltaTooLarge) {
			t.Errorf("%v, %v", brief(events), err)
		}
		if events, err := f.cache.Since(t.Context(), loadedAt+1, f.cache.Snapshot(), watchcache.Selection{}); err != nil ||
			len(events) != 1 {
			t.Errorf("one change less: %v, %v", brief(events), err)
		}
	})
	t.Run("too many bytes of the deleted", func(t *testing.T) {
		f := newFixture(t, watchcache.Config{MaxBytes: 1 << 40})
		rv := kube.ResourceVersion(loadedAt)
		for range 2 {
			for i := range 9 {
				what := thing{namespace: "a", name: fmt.Sprint("big-", i), size: 4 << 20}
				if rv++; rv <= loadedAt+9 {
					f.put(rv, what)
				} else {
					f.remove(rv, what)
				}
			}
		}
		s := f.cache.Snapshot()
		if events, err := f.cache.Since(t.Context(), loadedAt+9, s, watchcache.Selection{}); !errors.Is(err,
			watchcache.ErrDeltaTooLarge) {
			t.Errorf("%v, %v", brief(events), err)
		}
		if events, err := f.cache.Since(t.Context(), loadedAt+12, s, watchcache.Selection{}); err != nil || len(events) != 6 {
			t.Errorf("deleted after it: %v, %v", brief(events), err)
		}
	})
}

func TestDeltaStopsWithItsContext(t *testing.T) {
	o := &oracle{objects: map[string]*wire.Object{}}
	f := newFixture(t, watchcache.Config{History: &oracleHistory{oracle: o}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if events, err := f.cache.Since(ctx, 50, f.cache.Snapshot(), watchcache.Selection{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", events, err)
	}
}
