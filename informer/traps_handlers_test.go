package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// TestAnAddedHandlerDelaysNeitherCacheNorHandlers: its first call blocks forever. client-go
// delivers no events to any handler while it passes the state to a new one.
func TestAnAddedHandlerDelaysNeitherCacheNorHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 100 {
			w.Put(fmt.Sprint("o", n), n)
		}
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			var late []*informer.Registration
			for range 5 {
				late = append(late, i.Handle(func(ctx context.Context, _ event) error {
					<-ctx.Done()
					return ctx.Err()
				}))
			}
			for n := range 100 {
				w.Put(fmt.Sprint("o", n), 1000+n)
			}
			after(time.Second)
			for of, state := range map[string]map[string]string{"cache": cached(i), "handler": rec.state()} {
				if diff := cmp.Diff(w.state(t), state); diff != "" {
					t.Errorf("%s (-server +%s):\n%s", of, of, diff)
				}
			}
			for _, reg := range late {
				if n := reg.Pending(); n != 100 {
					t.Errorf("%d keys are waiting for a handler that does nothing", n)
				}
			}
		})
		rec.check(t)
	})
}

// TestAHandlerThatAlwaysFailsBecomesSynced after a call for each initial object. In
// client-go a recovered panic leaves HasSynced false forever.
func TestAHandlerThatAlwaysFailsBecomesSynced(t *testing.T) {
	for name, fail := range map[string]func() error{
		"panic": func() error { panic("oh") }, "error": func() error { return errNo },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Put("b", 1)
				calls := 0
				play(t, w, func(i *informer.Informer[*thing]) {
					reg := i.Handle(func(_ context.Context, e event) error {
						if e.Key.Name == "a" {
							calls++
							return fail()
						}
						return nil
					})
					after(time.Second)
					if err := reg.WaitSynced(t.Context()); err != nil || reg.Pending() != 1 {
						t.Errorf("%v, %d pending", err, reg.Pending())
					}
					after(time.Hour)
					if calls < 50 || calls > 100 { // 200 ms, doubled up to a minute
						t.Errorf("%d calls in an hour", calls)
					}
				})
			})
		})
	}
}

// TestAHandlerIsSyncedAfterItsInitialCallsReturned; until then it reports how many are left.
func TestAHandlerIsSyncedAfterItsInitialCallsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 1)
		i := w.informer()
		slow := i.Handle(func(context.Context, event) error { <-time.After(time.Minute); return nil }, informer.Name("slow"))
		quick := i.Handle(func(context.Context, event) error { return nil })
		run(t, i, func() {
			after(time.Second)
			if err := quick.WaitSynced(t.Context()); err != nil {
				t.Errorf("the other one waits for it: %v", err)
			}
			after(90 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := slow.WaitSynced(ctx)
			text(t, err, "slow", "1 keys are waiting")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			after(time.Minute)
			if err := slow.WaitSynced(t.Context()); err != nil {
				t.Errorf("wait until it is synced: %v", err)
			}
		})
	})
}

// TestAHandlerCanStopItself with a context that has ended, so that it does not wait for its
// own call. client-go's ShutDownEventHandler deadlocks there.
func TestAHandlerCanStopItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 1)
		var reg *informer.Registration
		var calls atomic.Int32
		i := w.informer()
		reg = i.Handle(func(ctx context.Context, _ event) error {
			calls.Add(1)
			own, cancel := context.WithCancel(ctx)
			cancel()
			if err := reg.Stop(own); !errors.Is(err, context.Canceled) {
				t.Errorf("stop: %v", err)
			}
			return nil
		})
		run(t, i, func() {
			after(time.Second)
			w.Put("a", 2)
			after(time.Second)
			if err := reg.Stop(t.Context()); err != nil || !errors.Is(reg.Err(), informer.ErrStopped) {
				t.Errorf("%v, %v", err, reg.Err())
			}
		})
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestPendingEventsAreDeliveredAfterRunEnds: client-go drops them, and rejects handlers that
// are added later.
func TestPendingEventsAreDeliveredAfterRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		rec := newRecorder()
		rec.slow = time.Minute
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(90 * time.Second) // a is delivered
			w.Put("a", 2)
			after(time.Second) // the handler is in a call, which is cancelled
			w.Put("b", 1)
			after(time.Second) // and has this waiting
		})
		late := newRecorder()
		i.Handle(late.handle) // between two runs
		w.Delete("a")
		run(t, i, func() { after(10 * time.Minute) })
		rec.check(t)
		late.check(t)
		// The cancelled call returned an error, so its change is delivered again.
		if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(w.state(t), late.state()); diff != "" {
			t.Error(diff)
		}
		lines := strings.Join(rec.lines(), ", ")
		if !strings.HasPrefix(lines, "Added a 1 initial, Modified a 2, ") || !strings.Contains(lines, "Added b 1") ||
			!strings.Contains(lines, "Deleted a 2") {
			t.Errorf("got %s", lines)
		}
	})
}

// TestFiltersNeverGetTombstonesOrNil, however an object was deleted.
func TestFiltersNeverGetTombstonesOrNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for _, name := range []string{"seen", "inferred", "unreadable", "reborn"} {
			w.Put(name, 2)
		}
		var bad atomic.Int32
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle, informer.Where(func(o *thing) bool {
			if o == nil || o.Name == "" {
				bad.Add(1)
				return true
			}
			return o.Value%2 == 0
		}), informer.Changed(func(o *thing) int {
			if o == nil || o.Name == "" {
				bad.Add(1)
				return 0
			}
			return o.Value
		}))
		w.Fail(listwatchtest.Faults(fault{End: "410", After: 7}, fault{Delay: time.Minute}))
		run(t, i, func() {
			after(time.Second)
			w.Delete("seen")
			w.DeleteWith("unreadable", "two") // an object that cannot be read
			after(time.Second)
			w.Delete("inferred")
			w.Delete("reborn")
			w.Put("reborn", 4)
			w.Compact(0)
			after(5 * time.Minute)
			if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
				t.Error(diff)
			}
		})
		rec.check(t)
		if n := bad.Load(); n > 0 {
			t.Errorf("%d times it was no object", n)
		}
		if n := strings.Count(strings.Join(rec.lines(), "\n"), "Deleted"); n != 4 {
			t.Errorf("got %v", rec.lines())
		}
	})
}

// TestEachHandlerHasItsOwnResyncPeriod: client-go has one timer for all handlers of an
// informer, with the shortest period of those added before it started, and rounds up the
// periods of later ones.
func TestEachHandlerHasItsOwnResyncPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 10 {
			w.Put(fmt.Sprint("o", n), n)
		}
		i := w.informer()
		add := func(period time.Duration) *atomic.Int32 {
			var resyncs atomic.Int32
			i.Handle(func(_ context.Context, e event) error {
				if e.Type == informer.Resync {
					resyncs.Add(1)
				}
				return nil
			}, informer.EveryResync(period))
			return &resyncs
		}
		rare, never := add(70*time.Second), add(0)
		run(t, i, func() {
			after(time.Second)
			often := add(10 * time.Second) // later, and shorter
			after(700*time.Second + 50*time.Millisecond)
			if r, n, o := rare.Load(), never.Load(), often.Load(); r != 100 || n != 0 || o != 700 {
				t.Errorf("%d, %d and %d resyncs of 10 objects in 700 s, want 100, 0 and 700", r, n, o)
			}
		})
		if diff := cmp.Diff([]string{"STREAM rv="}, kinds(w)[:1]); diff != "" || i.Status().Lists != 1 {
			t.Errorf("the server was asked %v", kinds(w))
		}
	})
}
