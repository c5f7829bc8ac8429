package informer_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// names are the keys of an iteration, in its order.
func names(all func(func(informer.Key, *thing) bool)) []string {
	var keys []string
	for k, o := range all {
		if o == nil || o.Name != k.Name || o.Namespace != k.Namespace {
			keys = append(keys, "not "+k.String())
			continue
		}
		keys = append(keys, k.String())
	}
	return keys
}

func TestReadsYieldTheirObjectsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.putIn("b", "z", `"app":"web"`)
		w.putIn("b", "a", `"app":"web","tier":"1"`)
		w.putIn("bb", "m", `"app":"db"`)
		w.putIn("a", "m", "")
		i := w.informer()
		if got := names(i.In("b")); got != nil {
			t.Errorf("before the sync: %v", got)
		}
		run(t, i, func() {
			after(time.Second)
			s := i.Snapshot()
			w.putIn("b", "late", `"app":"web"`)
			after(time.Second)
			web := labels.SelectorFromSet(labels.Set{"app": "web"})
			for name, c := range map[string]struct{ got, want []string }{
				"In b":           {names(i.In("b")), []string{"b/a", "b/late", "b/z"}},
				"In none":        {names(i.In("c")), nil},
				"Select web":     {names(i.Select(web)), []string{"b/a", "b/late", "b/z"}},
				"Select nothing": {names(i.Select(labels.Nothing())), nil},
				"older In b":     {names(s.In("b")), []string{"b/a", "b/z"}},
				"older Select":   {names(s.Select(web)), []string{"b/a", "b/z"}},
				"older Select all": {
					names(s.Select(labels.Everything())),
					[]string{"a/m", "b/a", "b/z", "bb/m"},
				},
				"older All": {names(s.All()), []string{"a/m", "b/a", "b/z", "bb/m"}},
			} {
				if diff := cmp.Diff(c.want, c.got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if _, found := s.Get(informer.Key{Namespace: "b", Name: "late"}); found || s.Len() != 4 || s.RV() != "1004" {
				t.Errorf("the older state has changed: %d objects at %s", s.Len(), s.RV())
			}
			for range i.In("b") {
				break // may stop early
			}
			for range i.Select(web) {
				break
			}
		})
	})
	var none informer.Snapshot[*thing]
	if _, found := none.Get(key("a")); found || none.Len() != 0 || none.RV() != "" || names(none.All()) != nil ||
		names(none.In("")) != nil {
		t.Error("the zero snapshot is not empty")
	}
}

// eventLine returns an event without its pointers.
func eventLine(e event) string {
	s := fmt.Sprint(e.Type, " ", e.Key.Name, " rv=", e.RV)
	if e.Old != nil {
		s += " was " + digest(e.Old)
	}
	if e.New != nil {
		s += " is " + digest(e.New)
	}
	if e.Inferred {
		s += " inferred"
	}
	return s
}

// difference is Diff by the book: every key of both, without looking at what is shared.
func difference(older, newer informer.Snapshot[*thing]) []string {
	before, now := maps.Collect(older.All()), maps.Collect(newer.All())
	keys := slices.Collect(maps.Keys(now))
	for k := range before {
		if now[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b informer.Key) int { return cmpString(a.Name, b.Name) })
	var all []string
	for _, k := range keys {
		a, b := before[k], now[k]
		if a != nil && b != nil && a.UID == b.UID {
			if a.ResourceVersion != b.ResourceVersion {
				all = append(all, eventLine(event{Type: informer.Modified, Key: k, Old: a, New: b, RV: b.ResourceVersion}))
			}
			continue
		}
		if a != nil {
			all = append(all, eventLine(event{Type: informer.Deleted, Key: k, Old: a, RV: newer.RV(), Inferred: true}))
		}
		if b != nil {
			all = append(all, eventLine(event{Type: informer.Added, Key: k, New: b, RV: b.ResourceVersion}))
		}
	}
	return all
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestDiffYieldsExactlyTheDifferenceOfTwoSnapshots(t *testing.T) {
	for n := range seeds(20 / 2) {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { diffStates(t, rand.New(rand.NewPCG(n, 3))) })
		})
	}
}

// diffStates takes states from a random life of several tree nodes and compares
// each with each, forwards and backwards.
func diffStates(t *testing.T, rng *rand.Rand) {
	w := newServer()
	for n := range 100 + rng.IntN(400) {
		w.Put(fmt.Sprintf("o%03d", n), n)
	}
	play(t, w, func(i *informer.Informer[*thing]) {
		var states []informer.Snapshot[*thing]
		states = append(states, i.Snapshot())
		for range 6 {
			after(time.Second)
			states = append(states, i.Snapshot())
			for range rng.IntN(1 + rng.IntN(60)) {
				name := fmt.Sprintf("o%03d", rng.IntN(600))
				if rng.IntN(3) > 0 {
					w.Put(name, rng.IntN(100))
				} else {
					w.Delete(name)
				}
			}
		}
		for a, older := range states {
			for b, newer := range states {
				var got []string
				for e := range newer.Diff(older) {
					got = append(got, eventLine(e))
				}
				if diff := cmp.Diff(difference(older, newer), got); diff != "" {
					t.Fatalf("from state %d to %d (-by the book +Diff):\n%s", a, b, diff)
				}
				for range newer.Diff(older) {
					break
				}
			}
		}
	})
}

func TestDiffAcrossARelistYieldsExactlyTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 5000 {
			w.Put(fmt.Sprintf("o%04d", n), n)
		}
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			older := i.Snapshot()
			w.Compact(0)
			w.Fail(listwatchtest.Faults(fault{End: "410"}))
			w.Put("o0001", 1)
			after(15 * time.Minute) // a re-list
			if n := i.Status().Lists; n != 2 {
				t.Fatalf("%d lists", n)
			}
			var got []string
			for e := range i.Snapshot().Diff(older) {
				got = append(got, e.Type.String()+" "+e.Key.Name)
			}
			if diff := cmp.Diff([]string{"Modified o0001"}, got); diff != "" {
				t.Error(diff)
			}
		})
	})
}
