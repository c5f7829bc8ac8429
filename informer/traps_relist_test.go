package informer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// allocated is how many bytes were allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestARelistOfAnUnchangedStateAllocatesNoSecondCopy: it allocates, garbage included, a
// fraction of the cache's size. client-go has both copies and the list in memory
// (client-go#1377).
func TestARelistOfAnUnchangedStateAllocatesNoSecondCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n = 2000
	items := make([][]byte, n)
	for k := range items {
		items[k] = []byte(realisticPod(k, 50))
	}
	lists := 0
	var begun, took uint64
	again := make(chan struct{})
	script := listwatchtest.Script{
		OnList: func(_ context.Context, _ request, each func([]byte) error) (metav1.ListMeta, error) {
			lists++
			if lists == 2 {
				begun = allocated()
			}
			for _, item := range items {
				if err := each(item); err != nil {
					return metav1.ListMeta{}, err
				}
			}
			return metav1.ListMeta{ResourceVersion: "100"}, nil
		},
		OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
			switch lists {
			case 1:
				say(listwatchtest.Frame("ERROR",
					`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version",`+
						`"reason":"Expired","code":410}`))
			case 2:
				took = allocated() - begun
				close(again)
				<-ctx.Done()
			}
			return nil
		},
	}
	before := heap()
	pods := informer.New(informer.From("pods", backend(script), informer.JSON[*corev1.Pod]()), informer.NoStreamingLists())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- pods.Run(ctx) }()
	<-again
	held := heap() - before
	cancel()
	if err := <-done; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
	t.Logf("a pod costs %d bytes, and %d to see that it is unchanged", held/n, took/n)
	most := held * 15 / 100
	if raced {
		most = held / 2 // still far from a second copy
	}
	if took > most {
		t.Errorf("the second list allocated %d bytes, the cache has %d", took, held)
	}
	runtime.KeepAlive(pods)
}

// TestReadsDuringARelistSeeOneState, the old or the new one, in Get, All and the indexes.
func TestReadsDuringARelistSeeOneState(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const objects, generations = 100, 40
	w := newServer()
	generation := func(g int) {
		var all []listwatchtest.Object
		for n := range objects {
			all = append(all, listwatchtest.Object{
				Key: key(fmt.Sprintf("o%03d", n)), UID: types.UID(fmt.Sprint("u", n)), RV: w.RV() + 1, Value: g,
			})
		}
		w.Reset(w.RV()+1, all...)
	}
	generation(0)
	w.Fail(func(r request) fault {
		if r.Watch {
			return fault{End: "410"}
		}
		return fault{}
	})
	i := w.informer(informer.NoStreamingLists(), informer.Backoff(time.Millisecond, time.Millisecond))
	byValue := informer.NewIndex1(i, "value", func(o *thing) int { return o.Value })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				s := i.Snapshot()
				first, _ := s.Get(key("o000"))
				n := 0
				for _, o := range s.All() {
					if n++; o.Value != first.Value || o.ResourceVersion != s.RV() {
						t.Errorf("%s and %s at %s", digest(first), digest(o), s.RV())
						return
					}
				}
				if of := byValue.At(s).Len(first.Value); n != objects || of != objects {
					t.Errorf("%d objects, %d in the index", n, of)
					return
				}
			}
		})
	}
	for g := range generations {
		generation(g)
		if _, err := i.Until(ctx, key("o099"), func(o *thing, _ bool) bool { return o.Value == g }); err != nil {
			t.Errorf("wait for the condition: %v", err)
		}
	}
	cancel()
	readers.Wait()
	if err := <-done; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

// TestABusyHandlerGetsTheDeletionsThatARelistFinds: pending events of the object do not
// hide the deletion (kubernetes#115658, #115620). An object that the handler never got is
// not reported as deleted.
func TestABusyHandlerGetsTheDeletionsThatARelistFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("busy", 1)
		w.Put("known", 1)
		w.Put("waiting", 1)
		rec := newRecorder()
		hold := make(chan struct{})
		rec.fail = func(e event) error {
			if e.Key.Name == "busy" && e.Type == informer.Modified {
				<-hold
			}
			return nil
		}
		i := w.informer()
		i.Handle(rec.handle)
		expired := fault{End: "410", After: 8}
		w.Fail(listwatchtest.Faults(expired, fault{Delay: 10 * time.Second}))
		run(t, i, func() {
			after(time.Second)
			w.Put("busy", 2) // the handler is in it for a while
			after(time.Second)
			w.Put("waiting", 2)
			w.Put("untold", 1)
			w.Put("waiting", 3) // the eighth frame
			after(time.Second)
			w.Delete("untold")
			w.Delete("waiting")
			w.Delete("known")
			w.Compact(0)
			after(time.Minute)
			close(hold)
			after(time.Minute)
		})
		rec.check(t)
		want := []string{
			"Added busy 1 initial", "Added known 1 initial", "Added waiting 1 initial", "Modified busy 2",
			"Deleted waiting 3 inferred merged=2", "Deleted known 1 inferred",
		}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestASnapshotEqualsTheServersStateAtItsVersion at any moment, under failures.
func TestASnapshotEqualsTheServersStateAtItsVersion(t *testing.T) {
	for n := range seeds(40 / 2) {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng, faulty := rand.New(rand.NewPCG(n, 6)), rand.New(rand.NewPCG(n, 7))
				w := newServer()
				w.Fail(failures(faulty))
				states := map[string]bool{}
				play(t, w, func(i *informer.Informer[*thing]) {
					for range 200 {
						churn(w, rng, 1+rng.IntN(3))
						after(time.Duration(rng.IntN(3000)) * time.Millisecond)
						s := i.Snapshot()
						if s.RV() == "" {
							continue
						}
						states[s.RV()] = true
						want, got := w.at(t, s.RV()), map[string]string{}
						for k, o := range s.All() {
							got[k.Name] = digest(o)
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Fatalf("at %s (-server +cache):\n%s\n%s", s.RV(), diff, strings.Join(kinds(w), ", "))
						}
					}
				})
				if len(states) < 20 {
					t.Errorf("only %d states were seen", len(states))
				}
			})
		})
	}
}
