package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

var errNo = errors.New("no")

func TestSlowHandlerGetsTheNewestStateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		rec := newRecorder()
		rec.fail = func(event) error { <-time.After(time.Minute); return nil }
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			for n := range 100 {
				w.Put("a", n+1)
				after(time.Millisecond)
			}
			w.Put("brief", 1)
			after(time.Millisecond)
			w.Delete("brief")
			after(2 * time.Minute)
			w.Put("b", 1)
			after(time.Millisecond)
			w.Put("busy", 1) // waits behind b
			after(time.Second)
			w.Delete("b") // during the call for b
			w.Put("b", 2)
			after(time.Second)
			w.Delete("a")
			w.Put("a", 7)
			w.Delete("a")
			after(10 * time.Minute)
		})
		rec.check(t)
		want := []string{
			"Added a 0 initial", "Modified a 100 merged=99",
			"Added b 1", "Added busy 1", "Deleted a 100 merged=2", "Deleted b 1", "Added b 2",
		}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestAFailedKeyIsRetriedWithTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		w.Put("other", 0)
		rec := newRecorder()
		var times []time.Duration
		begun := time.Now()
		rec.fail = func(e event) error {
			if e.Key.Name == "a" {
				times = append(times, time.Since(begun))
				if e.Object().Value < 2 {
					return errNo
				}
			}
			return nil
		}
		var incidents []string
		i := w.informer(informer.OnError(func(in informer.Incident) {
			incidents = append(incidents, in.Kind.String()+" "+in.Handler+" "+in.Key.Name)
		}))
		reg := i.Handle(rec.handle, informer.Name("picky"), informer.Retry(time.Second, 4*time.Second, 0))
		run(t, i, func() {
			after(20 * time.Second)
			if n := reg.Pending(); n != 1 {
				t.Errorf("%d pending", n)
			}
			select {
			case <-reg.Synced():
			default:
				t.Error("a key that fails keeps the handler from being synced")
			}
			w.Put("a", 1)
			after(time.Minute)
			w.Put("a", 2)
			after(time.Second)
			if n := reg.Pending(); n != 0 {
				t.Errorf("%d pending", n)
			}
		})
		rec.check(t)
		want := []time.Duration{0, 1, 3, 7, 11, 15, 19, 20} // 1, 2, 4, 4 … apart, and at the change
		for n := range want {
			if times[n].Round(time.Second) != want[n]*time.Second {
				t.Fatalf("called at %v", times)
			}
		}
		lines := rec.lines()
		if got := lines[len(lines)-1]; got != "Added a 2 initial merged=2" {
			t.Errorf("at last: %s", got)
		}
		if incidents[0] != "handler_failed picky a" {
			t.Errorf("incidents: %v", incidents)
		}
	})
}

func TestHandlerGivesUpAfterItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		calls := 0
		i := w.informer()
		reg := i.Handle(func(context.Context, event) error { calls++; return errNo }, informer.Retry(time.Second, time.Second, 3))
		run(t, i, func() { after(time.Minute) })
		if s := i.Status(); calls != 4 || s.Incidents[informer.HandlerGaveUp] != 1 || s.Incidents[informer.HandlerFailed] != 3 ||
			reg.Pending() != 0 {
			t.Errorf("%d calls, incidents %v, %d pending", calls, s.Incidents, reg.Pending())
		}
	})
}

func TestAPanicInAHandlerAffectsNoOtherHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 0)
		w.Put("b", 0)
		bad, good := newRecorder(), newRecorder()
		bad.fail = func(e event) error {
			if e.Key.Name == "a" && e.Attempt < 2 {
				panic("oh")
			}
			return nil
		}
		var last informer.Incident
		i := w.informer(informer.OnError(func(in informer.Incident) { last = in }))
		i.Handle(bad.handle)
		i.Handle(good.handle)
		run(t, i, func() {
			after(10 * time.Second)
			if diff := cmp.Diff(w.state(t), bad.state()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(w.state(t), good.state()); diff != "" {
				t.Error(diff)
			}
			if p, is := errors.AsType[*informer.PanicError](last.Err); !is || p.Value != "oh" ||
				!strings.Contains(p.Stack, "handler_test.go") {
				t.Errorf("incident %v", last)
			}
		})
		bad.check(t)
		good.check(t)
	})
}

func TestHandlerAddedLateGetsTheStateAsInitial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			w.Put("a", 2)
			w.Put("b", 3)
			after(time.Second)
			rec := newRecorder()
			reg := i.Handle(rec.handle)
			if err := reg.WaitSynced(t.Context()); err != nil {
				t.Fatalf("wait until it is synced: %v", err)
			}
			w.Put("b", 4)
			after(time.Second)
			rec.check(t)
			if diff := cmp.Diff([]string{"Added a 2 initial", "Added b 3 initial", "Modified b 4"}, rec.lines()); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestResyncIsSpreadOverItsPeriodAndNeverOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		const n = 200
		for k := range n {
			w.Put(fmt.Sprintf("o%03d", k), k)
		}
		rec := newRecorder()
		perSecond := map[int]int{}
		begun := time.Now()
		rec.fail = func(e event) error {
			if e.Type == informer.Resync {
				perSecond[int(time.Since(begun)/time.Second)]++
			}
			return nil
		}
		i := w.informer()
		i.Handle(rec.handle, informer.EveryResync(100*time.Second))
		run(t, i, func() {
			for k := range 400 {
				after(time.Second)
				w.Put(fmt.Sprintf("o%03d", k%n), 1000+k)
			}
			after(time.Second)
		})
		rec.check(t)
		seen := map[string]int{}
		for _, e := range rec.all() {
			if e.Type == informer.Resync {
				seen[e.Key.Name]++
			}
		}
		for name, times := range seen {
			// The first ones are due again in the second after the fourth period.
			if times < 3 || times > 5 || times == 5 && name > "o002" {
				t.Errorf("%s: %d times in 401 s, in 4 periods and a second", name, times)
			}
		}
		if len(seen) != n {
			t.Errorf("%d objects", len(seen))
		}
		for second, times := range perSecond {
			if times > 4 {
				t.Errorf("%d at once in second %d", times, second)
			}
		}
		if got := i.Status().Lists; got != 1 {
			t.Errorf("%d lists", got)
		}
	})
}

func TestEveryVersionIsDeliveredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		rec := newRecorder()
		var failed atomic.Int32
		rec.slow = 10 * time.Millisecond
		rec.fail = func(e event) error {
			if e.Attempt == 0 && e.Object().Value%7 == 3 {
				failed.Add(1)
				return errNo
			}
			return nil
		}
		i := w.informer()
		i.Handle(rec.handle, informer.Every(10, informer.Block), informer.Workers(3))
		run(t, i, func() {
			after(time.Second)
			for n := range 2000 {
				w.Put(fmt.Sprint("o", n%5), n)
			}
			after(time.Second)
			// At most 10 versions and one batch wait; the rest was not even read.
			if rv, _ := strconv.Atoi(i.ResourceVersion()); rv > 1000+len(rec.all())+10+256 {
				t.Errorf("%d versions were read, %d delivered", rv-1000, len(rec.all()))
			}
			for n := range 5 {
				w.Delete(fmt.Sprint("o", n))
			}
			after(20 * time.Minute)
			got := map[string][]int{}
			for _, e := range rec.all() {
				if vs := got[e.Key.Name]; e.Type != informer.Deleted && (len(vs) == 0 || vs[len(vs)-1] != e.New.Value) {
					got[e.Key.Name] = append(vs, e.New.Value)
				}
			}
			for n := range 5 {
				vs := got[fmt.Sprint("o", n)]
				if len(vs) != 400 {
					t.Errorf("o%d: %d versions, want 400", n, len(vs))
				}
				for k, v := range vs {
					if v != k*5+n {
						t.Fatalf("o%d: %v", n, vs)
					}
				}
			}
			if failed.Load() == 0 {
				t.Error("nothing failed")
			}
			if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
				t.Error(diff)
			}
		})
		rec.check(t)
	})
}

func TestABlockedHandlerQueuesOneStatePerKeyAndDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 20 {
			w.Put(fmt.Sprint("o", n), n)
		}
		good := newRecorder()
		i := w.informer()
		blocked := i.Handle(func(ctx context.Context, _ event) error {
			<-ctx.Done()
			return ctx.Err()
		}, informer.Workers(2))
		i.Handle(good.handle)
		run(t, i, func() {
			after(time.Second)
			for n := range 2000 {
				w.Put(fmt.Sprint("o", n%20), n)
				if n%100 == 99 {
					name := fmt.Sprint("brief", n)
					w.Put(name, 1)
					after(time.Millisecond)
					w.Delete(name)
				}
				after(time.Millisecond)
			}
			if n := blocked.Pending(); n != 20 {
				t.Errorf("%d pending, want the 20 live keys", n)
			}
			if diff := cmp.Diff(w.state(t), good.state()); diff != "" {
				t.Error(diff)
			}
		})
		good.check(t)
	})
}

func TestStoppedHandlerIsNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(i *informer.Informer[*thing]) {
			var calls, running atomic.Int32
			reg := i.Handle(func(ctx context.Context, _ event) error {
				calls.Add(1)
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				<-time.After(time.Second)
				return nil
			}, informer.EveryResync(time.Second))
			after(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := reg.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("stop while a call runs on: %v", err)
			}
			if err := reg.Stop(t.Context()); err != nil || running.Load() != 0 {
				t.Errorf("stop: %v, %d running", err, running.Load())
			}
			w.Put("a", 2)
			after(time.Minute)
			if n := calls.Load(); n != 1 || reg.Pending() != 0 {
				t.Errorf("%d calls, %d pending", n, reg.Pending())
			}
		})
	})
}

func TestRunRejectsAConcurrentRunAndAnInvalidSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play(t, newServer(), func(i *informer.Informer[*thing]) {
			after(time.Second)
			if err := i.Run(t.Context()); !errors.Is(err, informer.ErrRunning) {
				t.Errorf("second run: %v", err)
			}
		})
	})
	i := informer.New(informer.Source[*thing]{})
	if err := i.Run(t.Context()); err == nil {
		t.Error("an informer without a source runs")
	}
	if err := i.WaitSynced(t.Context()); err == nil {
		t.Error("an informer without a source is synced")
	}
	if err := informer.New(informer.From[*thing]("things", canned(nil, nil), nil)).Run(t.Context()); err == nil {
		t.Error("an informer without a decoder runs")
	}
}

func TestSnapshotDoesNotChangeWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 300 {
			w.Put(fmt.Sprintf("o%03d", n), 0)
		}
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			n := 0
			for k, o := range i.All() {
				if n == 10 {
					for m := range 300 {
						if m%2 == 0 {
							w.Put(fmt.Sprintf("o%03d", m), 1)
						} else {
							w.Delete(fmt.Sprintf("o%03d", m))
						}
					}
					w.Put("x", 1)
					after(time.Second)
				}
				if o.Value != 0 || k.Name != fmt.Sprintf("o%03d", n) {
					t.Fatalf("%d: %v %d", n, k, o.Value)
				}
				n++
			}
			if n != 300 || i.Len() != 151 {
				t.Errorf("%d seen, %d now", n, i.Len())
			}
		})
	})
}
