package clientgo_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/clientgo"
)

func TestItWorksInGeneratedFactoriesAndListers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeServer()
		w.put("a", "1")
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fakeServer", Transport: w, QPS: -1})
		if err != nil {
			t.Fatalf("make a client: %v", err)
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		ours := factory.InformerFor(&corev1.ConfigMap{},
			func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
				return clientgo.New(listWatch(c), &corev1.ConfigMap{}, resync, byNamespace())
			})
		maps := factory.Core().V1().ConfigMaps()
		if maps.Informer().GetIndexer() != ours.GetIndexer() {
			t.Fatal("the factory has another informer")
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		for kind, is := range factory.WaitForCacheSync(ctx.Done()) {
			if !is {
				t.Errorf("%v has not synced", kind)
			}
		}
		got, err := maps.Lister().ConfigMaps("ns").Get("a")
		if err != nil || got.Data["value"] != "1" {
			t.Errorf("%v, %v", got, err)
		}
		if list, err := maps.Lister().List(labels.Everything()); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		cancel()
		factory.Shutdown()
	})
}

func TestAfterStopHandlersAndIndexersAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeServer()
		w.put("a", "1")
		p := newPair(t, w, 0)
		noTransform := func(o any) (any, error) { return o, nil }
		started := func(i cache.SharedIndexInformer) string {
			return fmt.Sprint(
				i.SetTransform(noTransform), i.SetWatchErrorHandler(cache.WatchErrorHandler(nil)),
				i.SetWatchErrorHandlerWithContext(cache.DefaultWatchErrorHandler),
				i.IsStopped(), i.HasSynced(), i.GetController().HasSynced(), isDone(i), isDone(i.GetController()),
				i.AddIndexers(cache.Indexers{"late": func(any) ([]string, error) { return []string{"x"}, nil }}),
				len(i.GetIndexer().GetIndexers()) == 2,
			)
		}
		// Texts too: callers match on them.
		stopped := func(i cache.SharedIndexInformer) string {
			_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{})
			i.RunWithContext(t.Context()) // it has run: this returns at once
			return fmt.Sprint(err, i.AddIndexers(cache.Indexers{}), i.IsStopped(), i.HasSynced(), len(i.GetStore().List()) == 1)
		}
		run(t, func() {
			after(settled)
			if diff := cmp.Diff(started(p.theirs), started(p.ours)); diff != "" {
				t.Errorf("running (-client-go +ours):\n%s", diff)
			}
			if got, err := p.ours.GetIndexer().ByIndex("late", "x"); err != nil || len(got) != 1 {
				t.Errorf("the late index has %v, %v", got, err)
			}
		}, p.theirs, p.ours)
		if diff := cmp.Diff(stopped(p.theirs), stopped(p.ours)); diff != "" {
			t.Errorf("stopped (-client-go +ours):\n%s", diff)
		}
	})
}

func TestRemovedHandlersAreNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeServer()
		w.put("a", "1")
		w.put("b", "1")
		i := clientgo.New(w.listWatch(t), &corev1.ConfigMap{}, 0, nil)
		slow := newLog()
		slow.slow = time.Minute
		r, err := i.AddEventHandler(slow)
		if err != nil {
			t.Fatalf("add a handler: %v", err)
		}
		run(t, func() {
			after(time.Second)
			if r.HasSynced() {
				t.Error("synced, but no call has returned")
			}
			if err := i.RemoveEventHandler(r); err != nil { // while the first call runs
				t.Errorf("remove the handler: %v", err)
			}
			removed := time.Now()
			shutDown(t, i, r) // again, and wait
			if took := time.Since(removed); took < 50*time.Second {
				t.Errorf("a call runs, but the wait for it took %v", took)
			}
			w.put("a", "2")
			after(10 * time.Minute)
			if got := len(slow.calls()); got != 1 {
				t.Errorf("called for %d objects", got)
			}
			itself := newLog()
			var self cache.ResourceEventHandlerRegistration
			ready := make(chan struct{})
			itself.fail = func(string) {
				<-ready
				if err := i.RemoveEventHandler(self); err != nil {
					t.Errorf("remove the handler: %v", err)
				}
			}
			if self, err = i.AddEventHandler(itself); err != nil {
				t.Errorf("add a handler: %v", err)
			}
			close(ready)
			after(time.Minute)
			if got := len(itself.calls()); got != 1 {
				t.Errorf("a handler that removed itself was called for %d objects", got)
			}
		}, i)
		if err := i.RemoveEventHandler(nil); err == nil {
			t.Error("nothing can be removed")
		}
	})
}

// TestWritesToTheStoreAreVisible until the informer gets another state, as in client-go.
func TestWritesToTheStoreAreVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeServer()
		w.put("a", "1")
		p := newPair(t, w, 0)
		foreign := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "f", ResourceVersion: "7"}}
		}
		write := func() {
			for _, i := range []cache.SharedIndexInformer{p.theirs, p.ours} {
				s := i.GetStore()
				for _, err := range []error{s.Add(foreign("x")), s.Update(foreign("a")), s.Delete(foreign("b"))} {
					if err != nil {
						t.Errorf("write into the store: %v", err)
					}
				}
			}
		}
		same := func(what string, keys int) {
			t.Helper()
			if diff := cmp.Diff(contents(p.theirs), contents(p.ours)); diff != "" || len(contents(p.ours)) != keys {
				t.Errorf("%s: %d keys, want %d; -client-go +ours:\n%s", what, len(contents(p.ours)), keys, diff)
			}
		}
		write()
		same("before Run", 2)
		run(t, func() {
			after(settled)
			same("after the first list", 1)
			w.put("b", "1")
			after(settled)
			write()
			same("written", 2)
			w.put("a", "2")
			after(settled)
			same("an event", 2)
			relist(w, func() {})
			same("a re-list without a change", 2)
		}, p.theirs, p.ours)
	})
}

func TestFakeClientsWork(t *testing.T) {
	for _, c := range []struct {
		name      string
		construct clientgo.Constructor
	}{{"client-go", cache.NewSharedIndexInformer}, {"ours", clientgo.New}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				named := func(name string) *corev1.ConfigMap {
					return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
				}
				client := fake.NewClientset(named("a"))
				maps := client.CoreV1().ConfigMaps("ns")
				lw := semanticsOf(&cache.ListWatch{
					ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
						return maps.List(ctx, o)
					},
					WatchFuncWithContext: maps.Watch,
				}, client)
				i := c.construct(lw, &corev1.ConfigMap{}, 0, nil)
				l := newLog()
				if _, err := i.AddEventHandler(l); err != nil {
					t.Fatalf("add a handler: %v", err)
				}
				run(t, func() {
					after(settled)
					b := named("b")
					if _, err := maps.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
						t.Errorf("create a config map: %v", err)
					}
					after(time.Second)
					b.Data = map[string]string{"value": "2"}
					if _, err := maps.Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
						t.Errorf("update a config map: %v", err)
					}
					after(time.Second)
					if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
						t.Errorf("delete a config map: %v", err)
					}
					after(settled)
				}, i)
				want := calls{"ns/a": {"initial @=", "delete @="}, "ns/b": {"add @=", "update @= @=2"}}
				if _, says := any(client).(interface{ IsWatchListSemanticsUnSupported() bool }); !says {
					want = calls{} // before client-go 0.35: they have no streaming lists and do not say so, so that both wait
				}
				if diff := cmp.Diff(want, l.calls()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// TestOverAnySource reads a source of package informer.
func TestOverAnySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeServer()
		w.put("a", "1")
		source := informer.For[*corev1.ConfigMap](&rest.Config{Host: "http://fakeServer", Transport: w},
			corev1.SchemeGroupVersion.WithResource("configmaps"), informer.Namespace("ns"))
		incidents := 0
		over := clientgo.Over(source, 0, byNamespace(), clientgo.OnIncident(func(informer.Incident) { incidents++ }))
		l := newLog()
		if _, err := over.AddEventHandler(l); err != nil {
			t.Fatalf("add a handler: %v", err)
		}
		if err := over.SetTransform(func(o any) (any, error) {
			o.(*corev1.ConfigMap).Data["value"] += "!"
			return o, nil
		}); err != nil {
			t.Fatalf("set the transform: %v", err)
		}
		run(t, func() {
			after(settled)
			w.cut()
			after(settled)
			w.put("a", "2")
			after(settled)
			got, err := over.GetIndexer().ByIndex(cache.NamespaceIndex, "ns")
			if err != nil || len(got) != 1 || got[0].(*corev1.ConfigMap).Data["value"] != "2!" {
				t.Errorf("%v, %v", got, err)
			}
		}, over)
		want := calls{"ns/a": {"initial u1@1001=1!", "update u1@1001=1! u1@1002=2!"}}
		if diff := cmp.Diff(want, l.calls()); diff != "" || incidents != 1 {
			t.Errorf("%d incidents; -want +got:\n%s", incidents, diff)
		}
	})
}

// TestListsOfSeveralPagesAreComplete also checks a re-list in which few objects changed.
func TestListsOfSeveralPagesAreComplete(t *testing.T) {
	for _, noStreams := range []bool{false, true} {
		t.Run(fmt.Sprint("streaming=", !noStreams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeServer()
				w.noStreams = noStreams
				for n := range 3000 {
					w.put(fmt.Sprintf("o%04d", n), "1")
				}
				p := newPair(t, w, 0, clientgo.RelistUpdates())
				run(t, func() {
					p.compare(t, "the first list")
					relist(w, func() { w.put("o0001", "2"); w.delete("o0002") })
					p.compare(t, "a re-list")
				}, p.theirs, p.ours)
			})
		})
	}
}
