package informer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
)

func TestPagedListSurvivesAnExpiredToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 1200 {
			w.put(fmt.Sprintf("o%04d", n), n)
		}
		lists := 0
		w.fault = func(r request) fault {
			switch {
			case r.watch && lists == 0:
				return fault{status: 422}
			case !r.watch && r.cont == "" && lists == 0:
				lists++
				return fault{status: 504, tooLarge: true} // a cache that cannot say: quorum, which is paged
			case r.cont != "":
				lists++
				if lists == 3 { // while the pages are read, the history goes
					w.put("late", 1)
					w.compact()
				}
			}
			return fault{}
		}
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
		w := newWorld()
		w.put("a", 1)
		w.put("b", 2)
		rec := newRecorder()
		i := w.informer(informer.NoStreamingLists())
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			good := w.things["b"]
			w.mu.Lock()
			w.rv++
			w.things["b"] = strings.Replace(w.object("b", 2, w.rv, 7), `"value":7`, `"value":"seven"`, 1)
			w.appendLocked("MODIFIED", "b", w.things["b"])
			w.mu.Unlock()
			after(time.Second)
			if n := i.Status().Undecodable; n != 1 {
				t.Errorf("%d undecodable after the event", n)
			}
			w.compact()
			w.fail(faults(fault{end: "410"}))
			w.put("c", 3)
			after(15 * time.Minute) // a re-list among others
			s := i.Status()
			if o, is := i.Get(key("b")); !is || digest(o) != digest(parse(t, good)) || s.Undecodable != 1 || s.Lists != 2 {
				t.Errorf("b is %v %v, status %+v", o, is, s)
			}
			w.put("b", 8)
			after(time.Second)
			if o, is := i.Get(key("b")); !is || o.Value != 8 || i.Status().Undecodable != 0 {
				t.Errorf("b is %v, undecodable %d", o, i.Status().Undecodable)
			}
		})
		rec.check(t)
	})
}

func TestInformerRunsAgainFromWhereItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() { after(time.Minute) })
		w.put("a", 2)
		w.put("b", 3)
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
		"opening":   {hang: true},
		"waiting":   {refuse: true},
		"throttled": {status: 429, retryAfter: 3600},
		"streaming": {noEnd: true},
		"watching":  {},
		"silent":    {end: "silent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				w.fault = func(request) fault { return f }
				play(t, w, func(*informer.Informer[*thing]) { after(20 * time.Second) }) // play checks the stop
			})
		})
	}
}

func TestWaitSyncedSaysWhyNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			f    fault
			want string
		}{
			{fault{status: 403, reason: "Forbidden"}, "denied"},
			{fault{noEnd: true}, "streaming"},
			{fault{refuse: true}, "connection refused"},
		} {
			w := newWorld()
			w.fault = func(request) fault { return c.f }
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

func TestHotServerIsNotDialledInAHotLoop(t *testing.T) {
	for name, f := range map[string]fault{
		"closes after one event": {end: "eof", after: 1, repeat: 1},
		"closes at once":         {end: "eof"},
		"410 at once":            {end: "410"},
		"410 after an event":     {end: "410", after: 1, repeat: 1},
		"refuses":                {refuse: true},
		"cuts after an event":    {end: "cut", after: 1, repeat: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				w.put("b", 1)
				w.fault = func(r request) fault {
					if r.watch && !r.initial {
						return f
					}
					if r.initial {
						return fault{status: 422}
					}
					return fault{}
				}
				play(t, w, func(i *informer.Informer[*thing]) {
					after(2 * time.Minute)
					if n := len(w.seen()); n > 150 {
						t.Errorf("%d requests in 2 minutes", n)
					}
				})
			})
		})
	}
}

// circle is a server that answers a continue token with the same page again.
type circle struct{ lists []int64 }

func (c *circle) List(_ context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	c.lists = append(c.lists, o.Limit)
	meta := metav1.ListMeta{ResourceVersion: "7"}
	if o.Limit > 0 {
		meta.Continue = "again"
	}
	return meta, each([]byte(`{"metadata":{"name":"a","namespace":"default","uid":"u1","resourceVersion":"5"},"value":1}`))
}

func (c *circle) Watch(context.Context, metav1.ListOptions) (informer.Stream, error) {
	return nil, errRefused
}

func TestPagesInACircleAreNotReadForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &circle{}
		i := informer.New(informer.From("circle", c, informer.JSON[*thing]()), informer.NoStreamingLists())
		run(t, i, func() {
			after(time.Second)
			// Two pages are enough to see it; then everything is asked for at once.
			if diff := cmp.Diff([]int64{500, 500, 0}, c.lists); diff != "" || i.Len() != 1 || i.Status().Incidents[informer.Rejected] != 1 {
				t.Errorf("%d objects, limits (-want +got):\n%s", i.Len(), diff)
			}
		})
	})
}

// TestStateOfALostHistoryDoesNotOutliveItsObject: what cannot be read keeps its last
// readable state, but not one that the server never had.
func TestStateOfALostHistoryDoesNotOutliveItsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		w.put("b", 2)
		i := w.informer()
		run(t, i, func() {
			after(time.Second)
			w.mu.Lock()
			w.rv++
			w.things["b"] = strings.Replace(w.object("b", 2, w.rv, 7), `"value":7`, `"value":"seven"`, 1)
			w.appendLocked("MODIFIED", "b", w.things["b"])
			kept := len(w.log)
			w.mu.Unlock()
			w.put("a", 3)
			w.put("b", 4)
			after(time.Second)
			if o, is := i.Get(key("b")); !is || o.Value != 4 {
				t.Fatalf("b is %v", o)
			}
			// Restored from a backup in which b cannot be read.
			w.mu.Lock()
			w.things, _ = w.pastLocked(w.rv - 2)
			w.log, w.rv, w.floor = w.log[:kept], w.rv-2, w.rv-2
			w.mu.Unlock()
			w.fail(faults(fault{end: "eof"}))
			after(20 * time.Minute)
			w.delete("b")
			after(time.Second)
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Errorf("cache (-server +cache):\n%s", diff)
			}
		})
	})
}
