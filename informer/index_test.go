package informer_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

// content is everything that an index says, and checks that it says it the same way.
func content[V comparable](t *testing.T, x *informer.Index[*thing, V]) map[V][]string {
	t.Helper()
	all := map[V][]string{}
	for v := range x.Values() {
		if _, twice := all[v]; twice {
			t.Errorf("value %v is there twice", v)
		}
		for k, o := range x.Get(v) {
			all[v] = append(all[v], k.Name+" "+digest(o))
		}
		if len(all[v]) != x.Len(v) || !slices.IsSorted(all[v]) {
			t.Errorf("value %v has %d objects: %v", v, x.Len(v), all[v])
		}
	}
	return all
}

// scan is what an index of the snapshot must say.
func scan[V comparable](s informer.Snapshot[*thing], values func(*thing) []V) map[V][]string {
	all := map[V][]string{}
	for k, o := range s.All() {
		vs := values(o)
		for n, v := range vs {
			if !slices.Contains(vs[:n], v) {
				all[v] = append(all[v], k.Name+" "+digest(o))
			}
		}
	}
	return all
}

// parts has no, one or several values, some twice.
func parts(o *thing) []int {
	switch o.Value % 4 {
	case 0:
		return nil
	case 1:
		return []int{o.Value % 7, o.Value % 7}
	}
	return []int{o.Value % 7, o.Value % 5, 100}
}

func even(o *thing) bool { return o.Value%2 == 0 }

// TestIndexesEqualAScanAtAnyMoment under failures, for indexes added before and during Run.
func TestIndexesEqualAScanAtAnyMoment(t *testing.T) {
	for n := range seeds(40 / 2) {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playIndices(t, rand.New(rand.NewPCG(n, 4)), rand.New(rand.NewPCG(n, 5))) })
		})
	}
}

func playIndices(t *testing.T, rng, faulty *rand.Rand) {
	w := newServer()
	for n := range rng.IntN(40) {
		w.Put(fmt.Sprint("o", n), n)
	}
	w.Fail(failures(faulty))
	i := w.informer()
	var first, old informer.Snapshot[*thing]
	byPart := informer.NewIndex(i, "part", parts)
	var late []*informer.Index[*thing, bool]
	check := func() {
		s := i.Snapshot()
		if diff := cmp.Diff(scan(s, parts), content(t, byPart.At(s))); diff != "" {
			t.Fatalf("by part (-scan +index):\n%s", diff)
		}
		for _, x := range late {
			for _, s := range []informer.Snapshot[*thing]{first, old, s} {
				if diff := cmp.Diff(scan(s, func(o *thing) []bool { return []bool{even(o)} }), content(t, x.At(s))); diff != "" {
					t.Fatalf("by parity (-scan +index):\n%s", diff)
				}
			}
		}
		old = s
	}
	run(t, i, func() {
		for range 4 {
			for range 10 {
				churn(w, rng, rng.IntN(10))
				after(time.Second)
				check()
			}
			late = append(late, informer.NewIndex1(i, "parity", even))
		}
	})
}

func TestHandlerFindsItsEventInTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		i := w.informer()
		byValue := informer.NewIndex1(i, "value", func(o *thing) int { return o.Value })
		calls := 0
		i.Handle(func(_ context.Context, e event) error {
			calls++
			if e.Type == informer.Deleted {
				return nil
			}
			for k, o := range byValue.Get(e.New.Value) {
				if k == e.Key && o == e.New {
					return nil
				}
			}
			if now, _ := i.Get(e.Key); now == e.New { // else there is a newer one already
				t.Errorf("%v %s: the index does not have it", e.Type, e.Key)
			}
			return nil
		})
		run(t, i, func() {
			for n := range 200 {
				w.Put(fmt.Sprint("o", n%20), n)
				synctest.Wait()
			}
			after(time.Second)
			if calls != 201 {
				t.Errorf("%d calls", calls)
			}
		})
	})
}

func TestAPanicInAnIndexFunctionLeavesOutOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("good", 1)
		w.Put("bad", 13)
		var incidents []informer.Incident
		var mu sync.Mutex
		i := w.informer(informer.OnError(func(in informer.Incident) {
			mu.Lock()
			defer mu.Unlock()
			incidents = append(incidents, in)
		}))
		unlucky := func(o *thing) int {
			if o.Value == 13 {
				panic("unlucky")
			}
			return o.Value
		}
		x := informer.NewIndex1(i, "luck", unlucky)
		rec := newRecorder()
		i.Handle(rec.handle)
		values := func() []int { return slices.Sorted(maps.Keys(content(t, x))) }
		run(t, i, func() {
			after(time.Second)
			if diff := cmp.Diff([]int{1}, values()); diff != "" {
				t.Error(diff)
			}
			w.Put("bad", 2) // it is good now
			w.Put("good", 13)
			after(time.Second)
			if diff := cmp.Diff([]int{2}, values()); diff != "" {
				t.Error(diff)
			}
			w.Delete("good")
			after(time.Second)
			w.Put("third", 13)
			after(time.Second)
			informer.NewIndex1(i, "late", unlucky)
			if diff := cmp.Diff([]int{2}, values()); diff != "" {
				t.Error(diff)
			}
		})
		rec.check(t)
		var got []string
		for _, in := range incidents {
			got = append(got, in.Kind.String()+" "+in.Key.Name+" "+in.RV+" "+strings.SplitN(fmt.Sprint(in.Err), "\n", 2)[0])
		}
		want := []string{
			"index_panicked bad 1002 index luck: panic: unlucky", "index_panicked good 1004 index luck: panic: unlucky",
			"index_panicked third 1006 index luck: panic: unlucky", "index_panicked third 1006 index late: panic: unlucky",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if n := i.Status().Incidents[informer.IndexPanicked]; n != 4 {
			t.Errorf("%d counted", n)
		}
	})
}

func TestAnIndexLeavesOutUndecodableObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		i := w.informer()
		x := informer.NewIndex(i, "float", func(o *thing) []float64 { return []float64{math.NaN(), float64(o.Value)} })
		y := informer.NewIndex(i, "any", func(o *thing) []any { return []any{o.Value, fmt.Sprint(o.Value)} })
		run(t, i, func() {
			after(time.Second)
			w.Put("a", 2)
			after(time.Second)
			if got := slices.Collect(x.Values()); len(got) != 1 || got[0] != 2 || x.Len(math.NaN()) != 0 {
				t.Errorf("values %v", got)
			}
			if y.Len(2) != 1 || y.Len("2") != 1 || y.Len(1) != 0 || y.Len(2.0) != 0 {
				t.Errorf("values %v", slices.Collect(y.Values()))
			}
		})
	})
}

// TestIndicesAreAddedWhileTheInformerIsBusy is mainly for the race detector.
func TestIndicesAreAddedWhileTheInformerIsBusy(t *testing.T) {
	w := newServer()
	for n := range 300 {
		w.Put(fmt.Sprint("o", n), n)
	}
	i := w.informer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		if err := i.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	group.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		writes := 3000
		if testing.Short() {
			writes = 300
		}
		for range writes {
			writeOne(w, rng)
		}
	})
	var indices [8]*informer.Index[*thing, int]
	for n := range indices {
		group.Go(func() {
			x := informer.NewIndex(i, "part", parts)
			indices[n] = x
			for range 20 {
				s := i.Snapshot()
				if diff := cmp.Diff(scan(s, parts), content(t, x.At(s))); diff != "" {
					t.Errorf("(-scan +index):\n%s", diff)
					return
				}
				x.Len(100)
			}
		})
	}
	if err := i.WaitSynced(ctx); err != nil {
		t.Errorf("wait until it is synced: %v", err)
	}
	eventually(t, w, i)
	cancel()
	group.Wait()
	for _, x := range indices {
		if diff := cmp.Diff(scan(i.Snapshot(), parts), content(t, x)); diff != "" {
			t.Errorf("(-scan +index):\n%s", diff)
		}
	}
}

// writeOne makes one random write.
func writeOne(w *server, rng *rand.Rand) {
	name := fmt.Sprint("o", rng.IntN(400))
	if rng.IntN(4) == 0 {
		w.Delete(name)
		return
	}
	w.Put(name, rng.IntN(1000))
}
