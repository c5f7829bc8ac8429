package clientgo_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/clientgo"
)

func TestOptionsOfAnotherTypeAreErrorsOfAddEventHandler(t *testing.T) {
	for name, o := range map[string]informer.HandleOption{
		"Where":   informer.Where(func(c *corev1.ConfigMap) bool { return c.Name != "a" }),
		"Changed": informer.Changed(func(c *corev1.ConfigMap) string { return c.Data["a"] }),
	} {
		t.Run(name, func(t *testing.T) {
			incidents := 0
			i := clientgo.With(clientgo.Handlers(o),
				clientgo.OnIncident(func(informer.Incident) { incidents++ }))(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, nil)
			if r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
				t.Errorf("no error, but the registration %v", r)
			}
			if incidents != 1 {
				t.Errorf("%d incidents", incidents)
			}
		})
	}
}

func TestOptionsForMetadataSelectObjectsOfAnyType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeServer()
		w.put("a", "1")
		w.put("b", "1")
		i := clientgo.With(clientgo.Handlers(informer.Where(func(o metav1.Object) bool { return o.GetName() == "b" })))(
			w.listWatch(t), &corev1.ConfigMap{}, 0, nil)
		l := newLog()
		if _, err := i.AddEventHandler(l); err != nil {
			t.Fatalf("add a handler: %v", err)
		}
		run(t, func() { after(settled) }, i)
		if calls := l.calls(); len(calls) != 1 || len(calls["ns/b"]) != 1 {
			t.Errorf("the calls are %v", calls)
		}
	})
}

// reentrant calls everything that does not wait, from a callback, and fails if that does
// not return.
func reentrant(t *testing.T, i *cache.SharedIndexInformer, where string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		i := *i
		r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{})
		if err == nil {
			_ = r.HasSynced()
			_ = i.RemoveEventHandler(r)
		}
		_ = i.SetTransform(nil)
		_ = i.SetWatchErrorHandler(nil)
		_, _, _ = i.IsStopped(), i.HasSynced(), i.LastSyncResourceVersion()
		_, _ = i.GetIndexer().ListKeys(), i.GetIndexer().GetIndexers()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Errorf("%s: a call of the informer does not return: it is called under a lock", where)
	}
}

// TestNoCallbackIsCalledUnderALock of the informer. Index functions are called under that of
// the store, as in client-go.
func TestNoCallbackIsCalledUnderALock(t *testing.T) {
	w := newFakeServer()
	w.put("a", "1")
	seen := make(chan string, 1000)
	var i cache.SharedIndexInformer
	called := func(where string) {
		reentrant(t, &i, where)
		seen <- where
	}
	i = clientgo.With(
		clientgo.RelistUpdates(),
		clientgo.Handlers(informer.Every(1, informer.Fail)),
		clientgo.OnIncident(func(in informer.Incident) { called("incident " + in.Kind.String()) }),
	)(w.listWatch(t), &corev1.ConfigMap{}, 0, nil)
	if err := i.SetTransform(func(o any) (any, error) {
		called("transform")
		return o, nil
	}); err != nil {
		t.Fatalf("set the transform: %v", err)
	}
	if err := i.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {
		called("watch error")
	}); err != nil {
		t.Fatalf("set the error handler: %v", err)
	}
	slow := make(chan struct{})
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		called("handler")
		<-slow
	}}); err != nil {
		t.Fatalf("add a handler: %v", err)
	}
	run(t, func() {
		defer close(slow)
		wait(t, seen, "handler")
		w.do(func() { w.rv++; w.floor = w.rv }) // what the watch goes on from is too old
		w.put("b", "1")
		w.forget()
		wait(t, seen, "watch error", "incident gone")
		for _, name := range []string{"c", "d", "e"} { // more than the handler allows to wait
			w.put(name, "1")
		}
		wait(t, seen, "incident handler_stopped")
	}, i)
}

// wait waits until all of these were called.
func wait(t *testing.T, seen <-chan string, want ...string) {
	t.Helper()
	left := map[string]bool{}
	for _, what := range want {
		left[what] = true
	}
	patience := time.After(30 * time.Second)
	for len(left) > 0 {
		select {
		case what := <-seen:
			delete(left, what)
		case <-patience:
			t.Fatalf("not called: %v", left)
		}
	}
}

func TestRunReturnsWhileAListerWatcherHangs(t *testing.T) {
	list := make(chan struct{})
	lw := &cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) { //nolint:staticcheck // programs have such ListWatches
			<-list
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
		},
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { //nolint:staticcheck // as above
			<-list
			return watch.NewFake(), nil
		},
	}
	for name, lw := range map[string]cache.ListerWatcher{"list": semanticsOf(lw, noStreams{}), "streaming list": lw} {
		t.Run(name, func(t *testing.T) {
			i := clientgo.New(lw, &corev1.ConfigMap{}, 0, nil)
			ctx, cancel := context.WithCancel(t.Context())
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				i.RunWithContext(ctx)
			}()
			cancel()
			select {
			case <-returned:
			case <-time.After(30 * time.Second):
				t.Fatal("Run does not return")
			}
			if i.HasSynced() || !i.IsStopped() {
				t.Error("the informer is synced, or not stopped")
			}
		})
	}
	close(list) // the goroutines that hang end, which goleak checks
}
