package informer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

func TestEventsMergesChangesAsHandlersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		i := w.informer()
		rec := newRecorder()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { // ends with ctx
			defer close(ended)
			for e := range i.Events(ctx, informer.Name("pull")) {
				rec.enter(e)
				<-time.After(time.Minute)
				rec.leave(e, nil)
			}
		}()
		after(time.Hour) // the informer does not run yet
		run(t, i, func() {
			after(time.Second)
			for n := range 100 {
				w.Put("a", n+1)
				after(time.Millisecond)
			}
			w.Put("brief", 1)
			after(time.Millisecond)
			w.Delete("brief")
			after(10 * time.Minute)
		})
		run(t, i, func() {
			w.Delete("a")
			after(2 * time.Minute)
			w.Put("late", 1)
			after(time.Second) // late is in work
			cancel()
			after(time.Minute)
			select {
			case <-ended:
			default:
				t.Error("the events do not end with their context")
			}
			w.Put("later", 1)
			after(time.Minute)
		})
		rec.check(t)
		want := []string{"Added a 0 initial", "Modified a 100 merged=99", "Deleted a 100", "Added late 1"}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEventsReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			for e := range i.Events(ctx, informer.EveryResync(time.Hour)) {
				t.Errorf("calls %v", e)
			}
			if took := time.Since(begun); took != time.Minute {
				t.Errorf("ended after %v", took)
			}
		}) // and the resync of an hour keeps nobody from stopping
	})
}

func TestEachLoopOverEventsStartsWithTheWholeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 5 {
			w.Put(fmt.Sprint("o", n), n)
		}
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			events := i.Events(t.Context(), informer.Where(func(o *thing) bool { return o.Value != 1 }))
			for range 2 {
				var got []string
				for e := range events {
					got = append(got, fmt.Sprint(e.Key.Name, " ", e.Initial))
					if len(got) == 3 {
						break
					}
				}
				if diff := cmp.Diff([]string{"o0 true", "o2 true", "o3 true"}, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	})
}

func TestAPanicInALoopOverEventsReleasesItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		good := newRecorder()
		i := w.informer()
		i.Handle(good.handle)
		run(t, i, func() {
			func() {
				defer func() {
					if v := recover(); v != "oh" {
						t.Errorf("recovered %v", v)
					}
				}()
				for range i.Events(t.Context(), informer.Every(1, informer.Block)) {
					panic("oh")
				}
			}()
			for n := range 100 { // nobody waits for its room any more
				w.Put("a", n)
				after(time.Millisecond)
			}
			if diff := cmp.Diff(w.state(t), good.state()); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestEventsEndsWhenItsQueueIsFullAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			calls := 0
			w.Put("a", 0)
			for range i.Events(t.Context(), informer.Every(10, informer.Fail)) {
				calls++
				for n := range 20 {
					w.Put("a", n)
				}
				after(time.Second)
			}
			if n := i.Status().Incidents[informer.HandlerStopped]; calls != 1 || n != 1 {
				t.Errorf("%d calls, %d incidents", calls, n)
			}
		})
	})
}

// TestHandlersStopAtOnceInEveryState is about stopping the handlers; what the
// reflector does meanwhile is in TestRunStopsAtOnceInEveryState.
func TestHandlersStopAtOnceInEveryState(t *testing.T) {
	fails := func(context.Context, event) error { return errNo }
	blocks := func(ctx context.Context, _ event) error { <-ctx.Done(); return ctx.Err() }
	idle := func(context.Context, event) error { return nil }
	for _, c := range []struct {
		name   string
		handle func(context.Context, event) error
		opts   []informer.HandleOption
	}{
		{"idle", idle, []informer.HandleOption{informer.EveryResync(time.Hour)}},
		{"waiting to retry", fails, []informer.HandleOption{informer.Retry(time.Hour, time.Hour, 0)}},
		{"in a call", blocks, []informer.HandleOption{informer.Workers(4)}},
		{"without room", blocks, []informer.HandleOption{informer.Every(1, informer.Block)}},
		{"merging", blocks, []informer.HandleOption{informer.Every(1, informer.Merge)}},
		{"failed", blocks, []informer.HandleOption{informer.Every(1, informer.Fail)}},
	} {
		for _, stop := range []string{"run", "handler"} {
			t.Run(c.name+", "+stop, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newServer()
					play(t, w, func(i *informer.Informer[*thing]) {
						reg := i.Handle(c.handle, c.opts...)
						for n := range 1000 {
							w.Put(fmt.Sprint("o", n%7), n)
						}
						after(time.Minute)
						if stop == "run" {
							return // play checks how long it takes
						}
						begun := time.Now()
						if err := reg.Stop(t.Context()); err != nil {
							t.Errorf("stop the handler: %v", err)
						}
						if took := time.Since(begun); took > 100*time.Millisecond {
							t.Errorf("stopping took %v", took)
						}
						after(time.Minute)
						if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
							t.Error(diff)
						}
					})
				})
			})
		}
	}
}
