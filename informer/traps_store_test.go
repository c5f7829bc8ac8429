package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// frames is a server's Backend without bytes on a wire, whose watches need no goroutine.
func (s *server) frames() informer.Backend { return backend(&listwatchtest.View{Server: s.Server}) }

// TestAnInformerRunsOneGoroutineAndOneForEachHandler with one worker. client-go has six, and
// two for each handler.
func TestAnInformerRunsOneGoroutineAndOneForEachHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const handlers = 20
		pods := informer.New(informer.From("things", newServer().frames(), informer.JSON[*thing]()), informer.NoStreamingLists())
		for range handlers {
			pods.Handle(func(context.Context, event) error { return nil })
		}
		before := runtime.NumGoroutine()
		run(t, pods, func() {
			after(time.Minute)
			if n := runtime.NumGoroutine() - before; n > 1+handlers {
				t.Errorf("%d goroutines for an informer with %d handlers", n, handlers)
			}
		})
	})
}

// TestGetAllocatesNothing: no key is built, nothing is copied.
func TestGetAllocatesNothing(t *testing.T) {
	w := newServer()
	for n := range 1000 {
		w.Put(fmt.Sprint("o", n), n)
	}
	i := synced(t, informer.From("things", w.frames(), informer.JSON[*thing]()))
	byValue := informer.NewIndex1(i, "value", func(o *thing) int { return o.Value })
	if n := testing.AllocsPerRun(100, func() {
		if o, found := i.Get(key("o500")); !found || o.Value != 500 || byValue.Len(500) != 1 {
			t.Error("o500 is not there")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBuildingAnIndexDelaysNothing: an index function takes an hour, while the cache, its
// readers, handlers and other indexes continue. client-go holds the store's write lock.
func TestBuildingAnIndexDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		quick := informer.NewIndex1(i, "quick", func(o *thing) int { return o.Value })
		run(t, i, func() {
			after(time.Second)
			first := true
			built := make(chan *informer.Index[*thing, int])
			go func() {
				built <- informer.NewIndex1(i, "slow", func(o *thing) int {
					if first {
						first = false
						<-time.After(time.Hour)
					}
					return o.Value
				})
			}()
			after(time.Minute)
			w.Put("a", 2)
			w.Put("b", 2)
			after(time.Minute)
			if diff := cmp.Diff(w.state(t), rec.state()); diff != "" || quick.Len(2) != 2 {
				t.Errorf("%d in the other index, %s", quick.Len(2), diff)
			}
			if slow := <-built; slow.Len(2) != 2 || slow.Len(1) != 0 {
				t.Errorf("it has %v", content(t, slow))
			}
		})
	})
}

// TestASlowIndexFunctionDelaysTheCache and, in the end, the server; a slow handler does
// not. (It is the same in client-go, once 2 000 events are waiting.)
func TestASlowIndexFunctionDelaysTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		i := w.informer()
		informer.NewIndex1(i, "slow", func(o *thing) int { <-time.After(time.Minute); return o.Value })
		run(t, i, func() {
			after(time.Second)
			w.Put("a", 1)
			after(30 * time.Second)
			if _, found := i.Get(key("a")); found {
				t.Error("an object is shown that is not indexed")
			}
			after(time.Minute)
			if _, found := i.Get(key("a")); !found {
				t.Error("the object is not there")
			}
			after(10 * time.Minute)
		})
	})
}

// TestModifyingACachedObjectIsNotDetected: a re-list keeps the pointer, and with it the
// modification, while the object's version is the same. The next version replaces it. With
// Encode the modification is lost once nothing refers to the object; see
// TestAnEncodedObjectKeepsItsPointerWhileInUse.
func TestModifyingACachedObjectIsNotDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Fail(listwatchtest.Faults(fault{}, fault{End: "410"}))
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			o, _ := i.Get(key("a"))
			o.Value = 99 // forbidden
			after(11 * time.Minute)
			if s := i.Status(); s.Gone != 1 || s.Lists != 2 || len(s.Incidents) != 1 {
				t.Errorf("status %+v", s)
			}
			if again, _ := i.Get(key("a")); again != o || again.Value != 99 {
				t.Errorf("it is %v", again)
			}
			w.Put("a", 2)
			after(time.Second)
			if again, _ := i.Get(key("a")); again.Value != 2 {
				t.Errorf("the next version is %v", again)
			}
		})
	})
}

// TestAPageCanBeFreedBeforeTheNextIsRead: client-go keeps all pages until it has the last.
func TestAPageCanBeFreedBeforeTheNextIsRead(t *testing.T) {
	const pages, perPage = 6, 20
	var bytes []weak.Pointer[byte]
	alive := 0
	done := make(chan struct{})
	script := listwatchtest.Script{
		OnList: func(_ context.Context, r request, each func([]byte) error) (metav1.ListMeta, error) {
			page := 0
			if r.Continue != "" {
				_, _ = fmt.Sscan(r.Continue, &page)
			}
			runtime.GC()
			runtime.GC()
			for _, p := range bytes {
				if p.Value() != nil {
					alive++
				}
			}
			for n := range perPage {
				item := []byte(realisticPod(page*perPage+n, 50))
				bytes = append(bytes, weak.Make(&item[0]))
				if err := each(item); err != nil {
					return metav1.ListMeta{}, err
				}
			}
			meta := metav1.ListMeta{ResourceVersion: "100"}
			if page+1 < pages {
				meta.Continue = fmt.Sprint(page + 1)
			}
			return meta, nil
		},
		OnWatch: func(ctx context.Context, _ request, _ func(...string)) error {
			close(done)
			<-ctx.Done()
			return nil
		},
	}
	pods := synced(t, informer.From("pods", backend(script), informer.JSON[*corev1.Pod]()))
	<-done
	if pods.Len() != pages*perPage {
		t.Errorf("%d pods", pods.Len())
	}
	if alive > pages { // the last item of a page may still be on a stack
		t.Errorf("%d of %d items were still in memory when a later page was asked for", alive, len(bytes))
	}
}

// TestAHeldObjectDoesNotKeepItsListInMemory: a reference to one object keeps neither the
// list nor other objects in memory (kubernetes#113305).
func TestAHeldObjectDoesNotKeepItsListInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n = 2000
	before := heap()
	var survivor *corev1.Pod
	func() {
		i := informer.New(informer.From("pods", cannedPods(n), informer.JSON[*corev1.Pod]()), informer.NoStreamingLists())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- i.Run(ctx) }()
		if err := i.WaitSynced(ctx); err != nil {
			t.Errorf("wait until it is synced: %v", err)
		}
		for _, p := range i.All() {
			survivor = p
			break
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}()
	if held := int64(heap()) - int64(before); held > 100<<10 { // all of them: 17 MB
		t.Errorf("one pod keeps %d bytes", held)
	}
	runtime.KeepAlive(survivor)
}
