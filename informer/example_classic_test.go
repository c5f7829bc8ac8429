package informer_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
)

// demo is an API server with a few ConfigMaps and an informer for them, for the examples
// of docs/informer.md.
type demo struct {
	api  cluster
	last string // the resource version of the last write
	maps *informer.Informer[*corev1.ConfigMap]
}

type configEvent = informer.Event[*corev1.ConfigMap]

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func newDemo(opts ...informer.Option) *demo {
	l := &demo{api: newCluster("configmaps")}
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	l.maps = informer.New(informer.For[*corev1.ConfigMap](l.api.config(), gvr, informer.Namespace("default")), opts...)
	return l
}

// run runs the informer until the function that it returns is called.
func (l *demo) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.maps.Run(ctx) }()
	return func() {
		cancel()
		check(<-ended)
	}
}

func (l *demo) put(m *corev1.ConfigMap)   { l.last = l.api.put("configmaps", m) }
func (l *demo) create(name, value string) { l.put(settings(name, "", value)) }
func (l *demo) update(name, value string) { l.put(settings(name, "", value)) }

func (l *demo) remove(name string) {
	l.api["configmaps"].Delete(name)
	l.last = fmt.Sprint(l.api["configmaps"].RV())
}

// forget makes the server forget its history up to the last write.
func (l *demo) forget() { l.api["configmaps"].Compact(0) }

// settle waits until the cache has the last write, and the handler has handled it.
func (l *demo) settle(reg *informer.Registration) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	check(l.maps.WaitSynced(ctx))
	check(l.maps.WaitRevision(ctx, l.last))
	until(func() bool { return reg.Pending() == 0 })
}

func until(done func() bool) {
	for tick, deadline := time.NewTicker(time.Millisecond), time.Now().Add(30*time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			panic("it takes too long")
		}
	}
}

func show(_ context.Context, e configEvent) error {
	line := fmt.Sprint(e.Type, " ", e.Key.Name, "=", e.Object().Data["value"])
	if e.Type == informer.Modified {
		line += ", was " + e.Old.Data["value"]
	}
	if e.Initial {
		line += ", initial"
	}
	if e.Inferred {
		line += ", inferred"
	}
	fmt.Println(line)
	return nil
}

// What client-go's delta queue calls Added, Updated, Deleted, Sync and Replaced are
// the types Added, Modified, Deleted and Resync, and the fields Initial and Inferred.
func ExampleEvent() {
	l := newDemo()
	l.create("a", "1")
	reg := l.maps.Handle(show)
	stop := l.run()
	defer stop()
	l.settle(reg)
	l.update("a", "2")
	l.settle(reg)
	reg.Enqueue(informer.Key{Namespace: "default", Name: "a"})
	l.settle(reg)
	l.remove("a")
	l.settle(reg)
	// Output:
	// Added a=1, initial
	// Modified a=2, was 1
	// Resync a=2
	// Deleted a=2
}

// A resync that comes while there is a newer change to tell is part of it, and one
// that waits is overtaken by it: the handler never goes back.
func ExampleRegistration_Enqueue() {
	l := newDemo()
	l.create("a", "1")
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	reg := l.maps.Handle(func(ctx context.Context, e configEvent) error {
		if first {
			first = false
			close(begun)
			<-release // a slow call
		}
		return show(ctx, e)
	})
	stop := l.run()
	defer stop()
	<-begun
	a := informer.Key{Namespace: "default", Name: "a"}
	reg.Enqueue(a) // delivers the same state again
	l.update("a", "2")
	check(l.maps.WaitRevision(context.Background(), l.last))
	reg.Enqueue(a) // and the new one
	fmt.Println("keys behind:", reg.Pending())
	close(release)
	l.settle(reg)
	// Output:
	// keys behind: 1
	// Added a=1, initial
	// Modified a=2, was 1
}

// A deletion that the watch missed is delivered with the last known state. Inferred means
// that the object may have changed after it.
func ExampleEvent_inferred() {
	l := newDemo()
	l.create("a", "1")
	l.create("b", "1")
	reg := l.maps.Handle(show)
	stop := l.run()
	l.settle(reg)
	stop()
	l.update("a", "2")
	l.remove("a")
	l.create("a", "3") // another object with the same name
	l.remove("b")
	l.create("c", "1")
	l.forget() // and the history that would tell
	stop = l.run()
	defer stop()
	l.settle(reg)
	// Output:
	// Added a=1, initial
	// Added b=1, initial
	// Deleted a=1, inferred
	// Deleted b=1, inferred
	// Added c=1
	// Added a=3
}

// Each handler has a resync period of its own. The server hears nothing of it.
func ExampleEveryResync() {
	l := newDemo()
	l.create("a", "1")
	calls := 0
	plain := l.maps.Handle(func(context.Context, configEvent) error { calls++; return nil })
	resyncs := make(chan informer.EventType)
	l.maps.Handle(func(ctx context.Context, e configEvent) error {
		select {
		case resyncs <- e.Type:
		case <-ctx.Done():
		}
		return nil
	}, informer.EveryResync(10*time.Millisecond))
	stop := l.run()
	fmt.Println(<-resyncs, <-resyncs, <-resyncs)
	l.settle(plain)
	stop()
	s := l.maps.Status()
	fmt.Println("the other handler:", calls, "call")
	fmt.Println("the server:", s.Lists, "list,", s.Watches, "further watches")
	// Output:
	// Added Resync Resync
	// the other handler: 1 call
	// the server: 1 list, 0 further watches
}

// A re-watch goes on from where the last watch ended and reads nothing again. A
// re-list reads the whole state and tells the difference. A resync does neither.
func ExampleStatus() {
	l := newDemo()
	l.create("a", "1")
	l.create("b", "1")
	reg := l.maps.Handle(show)
	count := func(what string) {
		s := l.maps.Status()
		fmt.Println(what+":", s.Lists, "lists,", s.Watches, "re-watches,", s.Gone, "times 410")
	}
	stop := l.run()
	l.settle(reg)
	count("begin")

	stop()
	l.update("a", "2")
	stop = l.run()
	l.settle(reg)
	count("re-watch")

	stop()
	l.update("a", "3")
	l.remove("a")
	l.forget()
	stop = l.run()
	l.settle(reg)
	count("re-list") // b is as it was: it is not mentioned

	reg.Enqueue(informer.Key{Namespace: "default", Name: "b"})
	l.settle(reg)
	stop()
	count("resync")
	// Output:
	// Added a=1, initial
	// Added b=1, initial
	// begin: 1 lists, 0 re-watches, 0 times 410
	// Modified a=2, was 1
	// re-watch: 1 lists, 1 re-watches, 0 times 410
	// Deleted a=2, inferred
	// re-list: 2 lists, 2 re-watches, 1 times 410
	// Resync b=1
	// resync: 2 lists, 2 re-watches, 1 times 410
}

// A 410 is an incident, and then the difference to the state that is read again.
func ExampleOnError() {
	l := newDemo(informer.OnError(func(in informer.Incident) {
		fmt.Println("incident:", in.Kind) // and in.Next says: wait 0s to 250ms, then be streaming
	}))
	l.create("a", "1")
	l.create("b", "1")
	reg := l.maps.Handle(show)
	stop := l.run()
	l.settle(reg)
	stop()
	l.update("b", "2")
	l.remove("a")
	l.forget()
	stop = l.run()
	defer stop()
	l.settle(reg)
	// Output:
	// Added a=1, initial
	// Added b=1, initial
	// incident: gone
	// Deleted a=1, inferred
	// Modified b=2, was 1
}

// A reconciler gets the key, not the change.
func ExampleInformer_Reconcile() {
	l := newDemo()
	l.create("a", "1")
	reg := l.maps.Reconcile(func(_ context.Context, k informer.Key) error {
		now, is := l.maps.Get(k)
		if !is {
			fmt.Println(k.Name, "is gone")
			return nil
		}
		fmt.Println(k.Name, "is", now.Data["value"])
		return nil
	}, informer.Workers(4), informer.Changed(func(m *corev1.ConfigMap) string { return m.Data["value"] }))
	stop := l.run()
	defer stop()
	l.settle(reg)
	l.update("a", "2")
	l.settle(reg)
	l.update("a", "2") // nothing that counts
	l.settle(reg)
	l.remove("a")
	l.settle(reg)
	// Output:
	// a is 1
	// a is 2
	// a is gone
}

// Events are pulled by an ordinary loop. What it has not asked for yet is merged.
func ExampleInformer_Events() {
	l := newDemo()
	l.create("a", "1")
	stop := l.run()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for e := range l.maps.Events(ctx, informer.Where(func(m *corev1.ConfigMap) bool { return m.Data["value"] != "secret" })) {
		check(show(ctx, e))
		switch e.Type {
		case informer.Added:
			l.update("a", "2")
		case informer.Modified:
			l.update("a", "secret")
		case informer.Deleted: // for who may not see it
			cancel()
		case informer.Resync:
		}
	}
	// Output:
	// Added a=1, initial
	// Modified a=2, was 1
	// Deleted a=2
}
