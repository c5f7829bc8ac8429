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

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
)

// mute is a server with a fixed state, whose watches say nothing and need no goroutine.
type mute struct{ items []string }

func (m mute) List(_ context.Context, _ metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	for _, item := range m.items {
		if err := each([]byte(item)); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "100"}, nil
}

func (m mute) Watch(ctx context.Context, _ metav1.ListOptions) (informer.Stream, error) {
	return muteStream{ctx}, nil
}

type muteStream struct {
	ctx context.Context //nolint:containedctx // the request's
}

func (s muteStream) Next() (client.Frame, error) {
	<-s.ctx.Done()
	return client.Frame{}, context.Cause(s.ctx)
}
func (s muteStream) Ready() bool  { return false }
func (s muteStream) Close() error { return nil }

// TestAnInformerIsOneGoroutineAndOneForEachHandler, with one worker; client-go has six,
// and two for each handler.
func TestAnInformerIsOneGoroutineAndOneForEachHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const handlers = 20
		pods := informer.New(informer.From("pods", mute{}, informer.JSON[*thing]()), informer.NoStreamingLists())
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
	w := newWorld()
	var items []string
	for n := range 1000 {
		items = append(items, w.object(fmt.Sprint("o", n), n, n+1, n))
	}
	i := synced(t, informer.From("things", mute{items}, informer.JSON[*thing]()))
	byValue := informer.NewIndex1(i, "value", func(o *thing) int { return o.Value })
	if n := testing.AllocsPerRun(100, func() {
		if o, found := i.Get(key("o500")); !found || o.Value != 500 || byValue.Len(500) != 1 {
			t.Error("o500 is not there")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAnIndexThatIsBuiltDelaysNobody: the function of an index that is added takes an
// hour, and the cache, its readers, its handlers and other indices go on. client-go holds
// the store's write lock meanwhile.
func TestAnIndexThatIsBuiltDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
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
			w.put("a", 2)
			w.put("b", 2)
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

// TestAFunctionOfAnIndexIsWaitedFor: one that is slow for each object holds up the
// cache, and in the end the server; handlers cannot. (clients.md 1.10, 12: in client-go
// it is the same, from 2 000 events that wait on.)
func TestAFunctionOfAnIndexIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		i := w.informer()
		informer.NewIndex1(i, "slow", func(o *thing) int { <-time.After(time.Minute); return o.Value })
		run(t, i, func() {
			after(time.Second)
			w.put("a", 1)
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

// TestAnObjectThatIsModifiedInTheCacheIsNotNoticed: nobody checks, and a re-list does not
// mend it as long as the object's version is the same, because the pointer is kept. Its
// next version does. With Encode it is mended when nobody holds the object any more; see
// TestEncodedObjectIsTheSameWhileSomebodyHoldsIt.
func TestAnObjectThatIsModifiedInTheCacheIsNotNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		w.fail(faults(fault{}, fault{end: "410"}))
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
			w.put("a", 2)
			after(time.Second)
			if again, _ := i.Get(key("a")); again.Value != 2 {
				t.Errorf("the next version is %v", again)
			}
		})
	})
}

// TestAPageIsGarbageWhenTheNextIsAskedFor: client-go pages, and keeps all pages until
// the last has come.
func TestAPageIsGarbageWhenTheNextIsAskedFor(t *testing.T) {
	const pages, perPage = 6, 20
	var bytes []weak.Pointer[byte]
	alive := 0
	done := make(chan struct{})
	backend := scripted{
		list: func(_ context.Context, r request, each func([]byte) error) (metav1.ListMeta, error) {
			page := 0
			if r.cont != "" {
				_, _ = fmt.Sscan(r.cont, &page)
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
		watch: func(ctx context.Context, _ request, _ func(...string)) error {
			close(done)
			<-ctx.Done()
			return nil
		},
	}
	pods := synced(t, informer.From("pods", backend, informer.JSON[*corev1.Pod]()))
	<-done
	if pods.Len() != pages*perPage {
		t.Errorf("%d pods", pods.Len())
	}
	if alive > pages { // the last item of a page may still be on a stack
		t.Errorf("%d of %d items were still in memory when a later page was asked for", alive, len(bytes))
	}
}

// TestASurvivorKeepsNothingElseInMemory: who holds one object of a list holds neither
// the list nor its neighbours (kubernetes#113305).
func TestASurvivorKeepsNothingElseInMemory(t *testing.T) {
	const n = 2000
	before := heap()
	var survivor *corev1.Pod
	func() {
		i := informer.New(informer.From("pods", cannedPods(n), informer.JSON[*corev1.Pod]()), informer.NoStreamingLists())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- i.Run(ctx) }()
		if err := i.WaitSynced(ctx); err != nil {
			t.Error(err)
		}
		for _, p := range i.All() {
			survivor = p
			break
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if held := int64(heap()) - int64(before); held > 100<<10 { // all of them: 17 MB
		t.Errorf("one pod keeps %d bytes", held)
	}
	runtime.KeepAlive(survivor)
}
