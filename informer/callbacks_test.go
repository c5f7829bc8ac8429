package informer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
)

// TestNoIncidentOrMetricIsReportedUnderALock calls, from each of them, what takes the
// informer's locks. In a virtual clock a goroutine that waits for a lock would hang the
// test, so the clock is a real one.
func TestNoIncidentOrMetricIsReportedUnderALock(t *testing.T) {
	w := newServer()
	w.Put("a", 1)
	seen := make(chan string, 10_000)
	var i *informer.Informer[*thing]
	called := func(where string) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = i.Status()
			_ = i.WaitRevision(stopped(t), "1")
			informer.NewIndex1(i, "another", func(o *thing) int { return o.Value })
			r := i.Handle(func(context.Context, event) error { return nil })
			r.Enqueue(key("a"))
			_ = r.Stop(stopped(t))
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: a call of the informer does not return: it is called under a lock", where)
		}
		seen <- where
	}
	i = informer.New(informer.From("things", w.frames(), informer.JSON[*thing]()),
		informer.OnError(func(in informer.Incident) { called(in.Kind.String()) }),
		informer.Metrics(func(s informer.Sample) {
			if s.Metric == informer.MetricObjects || s.Metric == informer.MetricLists {
				called(s.Metric.String())
			}
		}))
	informer.NewIndex1(i, "panics", func(o *thing) int { panic(o.Name) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	await(t, seen, informer.MetricLists.String(), informer.MetricObjects.String(), informer.IndexPanicked.String())

	slow := make(chan struct{})
	i.Handle(func(context.Context, event) error { return errors.New("no") })
	i.Handle(func(context.Context, event) error { panic("no") })
	i.Handle(func(context.Context, event) error { return errors.New("no") }, informer.Retry(0, 0, 1))
	block := func(context.Context, event) error {
		<-slow
		return nil
	}
	i.Handle(block, informer.Every(1, informer.Merge))
	i.Handle(block, informer.Every(1, informer.Fail))
	for _, name := range []string{"b", "c", "d", "e"} {
		w.Put(name, 1)
	}
	await(t, seen, informer.HandlerFailed.String(), informer.HandlerPanicked.String(), informer.HandlerGaveUp.String(),
		informer.HandlerMerged.String(), informer.HandlerStopped.String())

	i.Handle(block, informer.Where(func(*corev1.Pod) bool { return true }))
	informer.NewIndex1(i, "panics too", func(o *thing) int { panic(o.Name) })
	await(t, seen, informer.HandlerStopped.String(), informer.IndexPanicked.String())
	close(slow)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

// stopped is a context that has ended.
func stopped(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// await waits until all of these were called.
func await(t *testing.T, seen <-chan string, want ...string) {
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
