package informer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

func TestPagedListSurvivesAnExpiredToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 1200 {
			w.Put(fmt.Sprintf("o%04d", n), n)
		}
		lists := 0
		w.Fail(func(r request) fault {
			switch {
			case r.Watch && lists == 0:
				return fault{Status: 422}
			case !r.Watch && r.Continue == "" && lists == 0:
				lists++
				return fault{Status: 504, TooLarge: true} // a cache that cannot say: quorum, which is paged
			case r.Continue != "":
				lists++
				if lists == 3 { // while the pages are read, the history goes
					w.Put("late", 1)
					w.Compact(0)
				}
			}
			return fault{}
		})
		i := w.informer(informer.NoStreamingLists())
		run(t, i, func() {
			after(time.Minute)
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Error("the cache is not the server's state")
			}
		})
	})
}

func TestObjectThatCannotBeDecodedIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 2)
		rec := newRecorder()
		i := w.informer(informer.NoStreamingLists())
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			good := w.state(t)["b"]
			w.Put("b", "seven")
			after(time.Second)
			if n := i.Status().Undecodable; n != 1 {
				t.Errorf("%d undecodable after the event", n)
			}
			w.Compact(0)
			w.Fail(listwatchtest.Faults(fault{End: "410"}))
			w.Put("c", 3)
			after(15 * time.Minute) // a re-list among others
			s := i.Status()
			if o, is := i.Get(key("b")); !is || digest(o) != good || s.Undecodable != 1 || s.Lists != 2 {
				t.Errorf("b is %v %v, status %+v", o, is, s)
			}
			w.Put("b", 8)
			after(time.Second)
			if o, is := i.Get(key("b")); !is || o.Value != 8 || i.Status().Undecodable != 0 {
				t.Errorf("b is %v, undecodable %d", o, i.Status().Undecodable)
			}
		})
		rec.check(t)
	})
}

func TestASecondRunResumesTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() { after(time.Minute) })
		w.Put("a", 2)
		w.Put("b", 3)
		run(t, i, func() { after(time.Minute) })
		rec.check(t)
		want := []string{"Added a 1 initial", "Modified a 2", "Added b 3"}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Error(diff)
		}
		if n := i.Status().Lists; n != 1 {
			t.Errorf("%d lists", n)
		}
	})
}

func TestRunStopsAtOnceInEveryState(t *testing.T) {
	for name, f := range map[string]fault{
		"opening":   {Hang: true},
		"waiting":   {Refuse: true},
		"throttled": {Status: 429, RetryAfter: 3600},
		"streaming": {NoEnd: true},
		"watching":  {},
		"silent":    {End: "silent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Fail(func(request) fault { return f })
				play(t, w, func(*informer.Informer[*thing]) { after(20 * time.Second) }) // play checks the stop
			})
		})
	}
}

func TestWaitSyncedReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			f    fault
			want string
		}{
			{fault{Status: 403, Reason: "Forbidden"}, "denied"},
			{fault{NoEnd: true}, "streaming"},
			{fault{Refuse: true}, "connection refused"},
		} {
			w := newServer()
			w.Fail(func(request) fault { return c.f })
			play(t, w, func(i *informer.Informer[*thing]) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := i.WaitSynced(ctx)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%+v: %v, want %q in it", c.f, err, c.want)
				}
			})
		}
	})
}

func TestAServerThatClosesWatchesIsNotCalledInAHotLoop(t *testing.T) {
	for name, f := range map[string]fault{
		"closes after one event": {End: "eof", After: 1, Repeat: 1},
		"closes at once":         {End: "eof"},
		"410 at once":            {End: "410"},
		"410 after an event":     {End: "410", After: 1, Repeat: 1},
		"refuses":                {Refuse: true},
		"cuts after an event":    {End: "cut", After: 1, Repeat: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Put("b", 1)
				w.Fail(func(r request) fault {
					if r.Watch && !r.Initial {
						return f
					}
					if r.Initial {
						return fault{Status: 422}
					}
					return fault{}
				})
				play(t, w, func(i *informer.Informer[*thing]) {
					after(2 * time.Minute)
					if n := len(w.Requests()); n > 150 {
						t.Errorf("%d requests in 2 minutes", n)
					}
				})
			})
		})
	}
}

func TestCircularContinueTokensEndTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Fail(func(r request) fault {
			if r.Watch {
				return fault{Refuse: true}
			}
			return fault{Endless: "circle"}
		})
		i := w.informer(informer.NoStreamingLists())
		run(t, i, func() {
			after(time.Second)
			var limits []int
			for _, r := range w.Requests() {
				if !r.Watch {
					limits = append(limits, r.Limit)
				}
			}
			// Three pages are enough to see it; then everything is asked for at once.
			if diff := cmp.Diff([]int{500, 500, 500, 0}, limits); diff != "" || i.Len() != 1 ||
				i.Status().Incidents[informer.Rejected] != 1 {
				t.Errorf("%d objects, limits (-want +got):\n%s", i.Len(), diff)
			}
		})
	})
}

// TestAnUndecodableObjectLosesAStateTheServerNeverHad: it keeps its last decodable state
// only if that is part of the server's history.
func TestAnUndecodableObjectLosesAStateTheServerNeverHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 2)
		i := w.informer()
		run(t, i, func() {
			after(time.Second)
			w.Put("b", "seven")
			w.Put("a", 3)
			w.Put("b", 4)
			after(time.Second)
			if o, is := i.Get(key("b")); !is || o.Value != 4 {
				t.Fatalf("b is %v", o)
			}
			// Restored from a backup in which b cannot be read.
			w.Rollback(2)
			w.Compact(0)
			w.Fail(listwatchtest.Faults(fault{End: "eof"}))
			after(20 * time.Minute)
			w.Delete("b")
			after(time.Second)
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Errorf("cache (-server +cache):\n%s", diff)
			}
		})
	})
}
