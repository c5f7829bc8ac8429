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
)

// TestAddingAHandlerStopsNobody: one that is added later, and never returns from its
// first call, keeps no event from the cache or from others. client-go stops all event
// flow of the informer while it hands the state to a new handler.
func TestAddingAHandlerStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 100 {
			w.put(fmt.Sprint("o", n), n)
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
				w.put(fmt.Sprint("o", n), 1000+n)
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

// TestAHandlerThatFailsForEverIsSyncedAllTheSame: it was called for everything that was
// there. In client-go a panic that is recovered leaves HasSynced false for ever.
func TestAHandlerThatFailsForEverIsSyncedAllTheSame(t *testing.T) {
	for name, fail := range map[string]func() error{"panic": func() error { panic("oh") }, "error": func() error { return errNo }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				w.put("b", 1)
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

// TestAHandlerIsSyncedWhenItsCallsHaveReturned, and until then says how many are missing.
func TestAHandlerIsSyncedWhenItsCallsHaveReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		w.put("b", 1)
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
				t.Error(err)
			}
		})
	})
}

// TestAHandlerCanStopItself: with a context that has ended, so that it does not wait for
// itself. client-go's ShutDownEventHandler deadlocks there.
func TestAHandlerCanStopItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		w.put("b", 1)
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
			w.put("a", 2)
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

// TestWhatWasNotToldBeforeRunEndedIsToldAfter: Run that ends drops nothing. client-go
// drops what waits, and takes no handler any more.
func TestWhatWasNotToldBeforeRunEndedIsToldAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		rec := newRecorder()
		rec.slow = time.Minute
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(90 * time.Second) // a is told
			w.put("a", 2)
			after(time.Second) // the handler is in a call, which is cancelled
			w.put("b", 1)
			after(time.Second) // and has this waiting
		})
		late := newRecorder()
		i.Handle(late.handle) // between two runs
		w.delete("a")
		run(t, i, func() { after(10 * time.Minute) })
		rec.check(t)
		late.check(t)
		// The call that was cancelled returned an error; what came of it is told again.
		if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(w.state(t), late.state()); diff != "" {
			t.Error(diff)
		}
		lines := strings.Join(rec.lines(), ", ")
		if !strings.HasPrefix(lines, "Added a 1 initial, Modified a 2, ") || !strings.Contains(lines, "Added b 1") || !strings.Contains(lines, "Deleted a 2") {
			t.Errorf("told %s", lines)
		}
	})
}

// TestFiltersSeeObjectsOnly: no tombstone, no nil, whatever a deletion looks like.
func TestFiltersSeeObjectsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, name := range []string{"seen", "inferred", "unreadable", "reborn"} {
			w.put(name, 2)
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
		w.fail(faults(fault{end: "410", after: 7}, fault{delay: time.Minute}))
		run(t, i, func() {
			after(time.Second)
			w.delete("seen")
			w.mu.Lock() // a deletion whose object cannot be read
			w.rv++
			gone := strings.Replace(w.object("unreadable", 3, w.rv, 2), `"value":2`, `"value":"two"`, 1)
			delete(w.things, "unreadable")
			w.appendLocked("DELETED", "unreadable", gone)
			w.mu.Unlock()
			after(time.Second)
			w.delete("inferred")
			w.delete("reborn")
			w.put("reborn", 4)
			w.compact()
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
			t.Errorf("told %v", rec.lines())
		}
	})
}

// TestEachHandlerHasAResyncPeriodOfItsOwn: client-go has one timer for all of an
// informer's handlers, at the shortest period that was asked for before it started, and
// rounds up who comes later.
func TestEachHandlerHasAResyncPeriodOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 10 {
			w.put(fmt.Sprint("o", n), n)
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
