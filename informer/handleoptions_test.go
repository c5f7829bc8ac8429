package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
)

// keyLog is a reconciler that notes what it was called with and what it found.
type keyLog struct {
	i     *informer.Informer[*thing]
	slow  time.Duration
	mu    sync.Mutex
	calls []string
	fail  func(name string, calls int) error
}

func (l *keyLog) reconcile(ctx context.Context, k informer.Key) error {
	found := "gone"
	if o, is := l.i.Get(k); is {
		found = fmt.Sprint(o.Value)
	}
	l.mu.Lock()
	l.calls = append(l.calls, k.Name+" "+found)
	n := len(l.calls)
	l.mu.Unlock()
	select {
	case <-time.After(l.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.fail == nil {
		return nil
	}
	return l.fail(k.Name, n)
}

func (l *keyLog) check(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if diff := cmp.Diff(want, l.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestReconcileMergesTheChangesOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		i := w.informer()
		log := &keyLog{i: i, slow: time.Minute}
		reg := i.Reconcile(log.reconcile)
		run(t, i, func() {
			after(time.Second) // a is in work
			for n := range 5 {
				w.Put("b", n)
				w.Delete("a")
				w.Put("a", n)
				after(time.Second)
			}
			w.Delete("b")
			w.Put("b", 9)
			after(time.Second)
			w.Put("brief", 1)
			after(time.Second)
			w.Delete("brief")
			after(5 * time.Minute)
			w.Delete("b")
			after(5 * time.Minute)
			if n := reg.Pending(); n != 0 {
				t.Errorf("%d pending", n)
			}
		})
		log.check(t, "a 1", "b 9", "a 4", "b gone")
	})
}

func TestAFailedReconcileIsRetriedAndDoesNotDelaySync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		i := w.informer()
		log := &keyLog{i: i}
		log.fail = func(_ string, calls int) error {
			switch calls {
			case 1:
				return errNo
			case 2:
				panic("oh")
			}
			return nil
		}
		reg := i.Reconcile(log.reconcile, informer.Retry(time.Second, time.Minute, 0))
		run(t, i, func() {
			if err := reg.WaitSynced(t.Context()); err != nil {
				t.Errorf("wait until it is synced: %v", err)
			}
			w.Delete("a") // the deletion is worth a call, though no call succeeded
			after(time.Minute)
		})
		if s := i.Status(); s.Incidents[informer.HandlerFailed] != 1 || s.Incidents[informer.HandlerPanicked] != 1 {
			t.Errorf("incidents %v", s.Incidents)
		}
		log.check(t, "a 1", "a gone", "a gone")
	})
}

func evenValue(o *thing) bool { return o.Value%2 == 0 }

func TestWhereDeliversEventsAsASelectorWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("in", 2)
		w.Put("out", 1)
		rec := newRecorder()
		rec.where = evenValue
		i := w.informer()
		i.Handle(rec.handle, informer.Where(evenValue), informer.Where(func(o *thing) bool { return o.Value < 100 }))
		run(t, i, func() {
			step := func(name string, value int) {
				w.Put(name, value)
				after(time.Second)
			}
			after(time.Second)
			step("in", 4)
			step("in", 5) // leaves
			step("in", 7)
			step("in", 6) // enters
			step("in", 102)
			step("out", 3)
			step("out", 8)
			w.Delete("out")
			after(time.Second)
			step("never", 1)
			w.Delete("never")
			step("in", 104)
			w.Delete("in")
			after(time.Second)
		})
		rec.check(t)
		want := []string{
			"Added in 2 initial", "Modified in 4", "Deleted in 4", "Added in 6", "Deleted in 6", "Added out 8", "Deleted out 8",
		}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

// A failed deletion is retried, also that of an object whose addition failed.
func TestWhereRetriesTheDeletionOfAnObjectThatNoLongerMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 2)
		rec := newRecorder()
		rec.where = evenValue
		rec.fail = func(e event) error {
			if e.Attempt < 2 {
				return errNo
			}
			return nil
		}
		i := w.informer()
		i.Handle(rec.handle, informer.Where(evenValue), informer.Retry(time.Second, time.Second, 0))
		run(t, i, func() {
			after(1500 * time.Millisecond) // delivered twice, failed twice
			w.Put("a", 3)
			after(time.Minute)
			w.Put("a", 5)
			after(time.Minute)
			w.Put("a", 6)
			after(time.Minute)
			w.Put("a", 7)
			after(time.Millisecond)
			w.Put("a", 9)
			after(time.Minute)
		})
		rec.check(t)
		want := []string{
			"Added a 2 initial", "Added a 2 initial", "Deleted a 2 merged=1",
			"Added a 6", "Added a 6", "Added a 6",
			"Deleted a 6", "Deleted a 6 merged=1", "Deleted a 6 merged=1",
		}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestChangedDeliversOnlyChangesOfTheGivenValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 10)
		rec := newRecorder()
		rec.field = func(o *thing) int { return o.Value / 10 }
		var failing atomic.Bool
		rec.fail = func(event) error {
			if failing.Load() {
				return errNo
			}
			return nil
		}
		i := w.informer()
		reg := i.Handle(rec.handle, informer.Changed(rec.field), informer.Retry(time.Hour, time.Hour, 0))
		run(t, i, func() {
			step := func(value int) {
				w.Put("a", value)
				after(time.Second)
			}
			after(time.Second)
			step(11)
			step(12)
			step(21)
			step(22)
			reg.Enqueue(key("a"))
			after(time.Second)
			failing.Store(true)
			step(31) // delivered, not handled
			failing.Store(false)
			step(23) // as before, but the handler saw 31
			step(24)
			w.Delete("a")
			w.Put("a", 25) // another one
			after(time.Second)
			if n := reg.Pending(); n != 0 {
				t.Errorf("%d pending", n)
			}
		})
		rec.check(t)
		want := []string{
			"Added a 10 initial", "Modified a 21", "Resync a 22", "Modified a 31", "Modified a 23 merged=1", "Deleted a 24",
			"Added a 25",
		}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSeveralChangedFiltersAreCombinedWithOr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 12)
		rec := newRecorder()
		play(t, w, func(i *informer.Informer[*thing]) {
			i.Handle(rec.handle,
				informer.Changed(func(o *thing) int { return o.Value % 10 }),
				informer.Changed(func(o *thing) string { return fmt.Sprint(o.Value / 100) }))
			for _, value := range []int{22, 32, 132, 133, 143} {
				after(time.Second)
				w.Put("a", value)
			}
			after(time.Second)
		})
		if diff := cmp.Diff([]string{"Added a 12 initial", "Modified a 132", "Modified a 133"}, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSkipInitialCountsTheInitialObjectsAsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 1)
		w.Put("quiet", 1)
		early, late := newRecorder(), newRecorder()
		early.skipped, late.skipped = true, true
		i := w.informer()
		regs := []*informer.Registration{i.Handle(early.handle, informer.SkipInitial())}
		run(t, i, func() {
			after(time.Second)
			regs = append(regs, i.Handle(late.handle, informer.SkipInitial()))
			for _, reg := range regs {
				if err := reg.WaitSynced(t.Context()); err != nil {
					t.Errorf("wait until it is synced: %v", err)
				}
			}
			w.Put("a", 2)
			w.Delete("b")
			w.Put("new", 3)
			after(time.Second)
		})
		for _, rec := range []*recorder{early, late} {
			rec.check(t)
			lines := rec.lines()
			slices.Sort(lines)
			if diff := cmp.Diff([]string{"Added new 3", "Deleted b 1", "Modified a 2"}, lines); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestLagIsTheAgeOfTheOldestUnhandledChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 1)
		var blocked atomic.Bool
		i := w.informer()
		rec := newRecorder()
		rec.fail = func(e event) error {
			if blocked.Load() && e.Key.Name == "a" {
				return errNo
			}
			return nil
		}
		reg := i.Handle(rec.handle, informer.Retry(time.Second, time.Second, 0), informer.EveryResync(10*time.Second))
		run(t, i, func() {
			lag := func(want time.Duration) {
				t.Helper()
				if got := reg.Lag(); got != want {
					t.Errorf("lag %v, want %v", got, want)
				}
			}
			after(time.Hour)
			lag(0) // resyncs are no changes
			blocked.Store(true)
			w.Put("a", 2)
			after(10 * time.Second)
			lag(10 * time.Second)
			w.Put("a", 3) // newer states do not make it younger
			w.Put("b", 2)
			after(time.Second)
			lag(11 * time.Second)
			blocked.Store(false)
			after(2 * time.Second)
			lag(0)
		})
	})
}

func TestEnqueueReDeliversTheCurrentState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		rec := newRecorder()
		var broken atomic.Bool
		rec.fail = func(event) error {
			if broken.Load() {
				return errNo
			}
			return nil
		}
		i := w.informer()
		reg := i.Handle(rec.handle, informer.Retry(time.Hour, time.Hour, 0))
		log := &keyLog{i: i, slow: 10 * time.Millisecond}
		rec.slow = log.slow
		keys := i.Reconcile(log.reconcile)
		both := func(name string) {
			reg.Enqueue(key(name))
			keys.Enqueue(key(name))
		}
		both("a") // no effect: every object is delivered anyway
		run(t, i, func() {
			after(time.Second)
			both("a")
			after(time.Millisecond) // the calls have begun: what comes now waits
			both("a")
			both("a") // with the one before
			both("nobody")
			after(time.Second)
			broken.Store(true)
			w.Put("a", 2)
			after(time.Second)
			broken.Store(false)
			reg.Enqueue(key("a")) // at once, not in an hour
			after(time.Second)
			if n := reg.Pending(); n != 0 {
				t.Errorf("%d pending", n)
			}
			if err := reg.Stop(t.Context()); err != nil || !errors.Is(reg.Err(), informer.ErrStopped) {
				t.Errorf("%v, %v", err, reg.Err())
			}
			reg.Enqueue(key("a"))
			after(time.Second)
		})
		rec.check(t)
		want := []string{"Added a 1 initial", "Resync a 1", "Resync a 1", "Modified a 2", "Modified a 2"}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
		log.check(t, "a 1", "a 1", "nobody gone", "a 1", "a 2")
	})
}

func TestAPanicInAFilterFailsThatHandlerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 2)
		bad, good := newRecorder(), newRecorder()
		i := w.informer()
		i.Handle(bad.handle, informer.Where(func(o *thing) bool {
			if o.Value == 1 {
				panic("oh")
			}
			return true
		}), informer.Retry(time.Second, time.Second, 0))
		i.Handle(good.handle)
		run(t, i, func() {
			after(10500 * time.Millisecond)
			if n := i.Status().Incidents[informer.HandlerPanicked]; n != 11 {
				t.Errorf("%d panics", n)
			}
			w.Put("a", 2)
			after(time.Second)
			for _, rec := range []*recorder{bad, good} {
				if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
					t.Error(diff)
				}
			}
		})
		bad.check(t)
		good.check(t)
	})
}

func TestAFilterForAnotherTypeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(i *informer.Informer[*thing]) {
			synctest.Wait() // it runs, for others too
			for _, wrong := range []informer.HandleOption{
				informer.Where(func(*corev1.Pod) bool { return true }),
				informer.Changed(func(*corev1.Pod) int { return 0 }),
			} {
				reg := i.Handle(newRecorder().handle, wrong)
				if err := reg.WaitSynced(t.Context()); err == nil || !strings.Contains(err.Error(), "*v1.Pod") ||
					!strings.Contains(err.Error(), "thing") {
					t.Errorf("err %v", err)
				}
				for e := range i.Events(t.Context(), wrong) {
					t.Errorf("got %v", e)
				}
			}
			if n := i.Status().Incidents[informer.HandlerStopped]; n != 4 {
				t.Errorf("%d incidents", n)
			}
			if err := i.WaitSynced(t.Context()); err != nil {
				t.Errorf("others hear of it: %v", err)
			}
		})
		i := w.informer()
		i.Handle(newRecorder().handle, informer.Name("wrong"), informer.Where(func(*corev1.Pod) bool { return true }))
		for what, err := range map[string]error{"Run": i.Run(t.Context()), "WaitSynced": i.WaitSynced(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), "handler wrong: option Where is a func(*v1.Pod) bool") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
