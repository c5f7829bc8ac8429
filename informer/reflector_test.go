package informer_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// play runs an informer on a world in virtual time, lets f do its work, stops the
// informer and checks that it stopped at once.
func play(t *testing.T, w *server, f func(i *informer.Informer[*thing]), opts ...informer.Option) {
	t.Helper()
	i := w.informer(opts...)
	run(t, i, func() { f(i) })
}

func run(t *testing.T, i *informer.Informer[*thing], f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	f()
	begun := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(begun); took > 100*time.Millisecond {
		t.Errorf("stopping took %v", took)
	}
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func kinds(w *server) []string {
	var all []string
	for _, r := range w.Requests() {
		all = append(all, r.String())
	}
	return all
}

func TestInformerFollowsTheServerThroughEveryFailure(t *testing.T) {
	hang := fault{Hang: true}
	for _, c := range []struct {
		name   string
		faults []fault
		opts   []informer.Option
		// between happens after a minute, when the faults of the beginning are over.
		between func(w *server)
		within  time.Duration // to be synced, 0: 5 s
		want    []string      // the requests of the first two minutes
		kinds   []informer.IncidentKind
	}{
		{name: "nothing", want: []string{"STREAM rv="}},
		{
			name: "410 in the stream", faults: []fault{{End: "410", After: 5}},
			want: []string{"STREAM rv=", "STREAM rv=1003"}, kinds: []informer.IncidentKind{informer.Gone},
		},
		{
			name: "410 as the answer to a watch", faults: []fault{{End: "eof", After: 4}, {Status: 410, Reason: "Expired"}},
			want: []string{"STREAM rv=", "WATCH rv=1003", "STREAM rv=1003"}, kinds: []informer.IncidentKind{informer.Gone},
		},
		{
			name: "410 on a list", opts: []informer.Option{informer.NoStreamingLists()},
			faults: []fault{{}, {End: "410"}, {Status: 410, Reason: "Expired"}},
			want:   []string{"LIST rv=0", "WATCH rv=1003", "LIST rv=1003", "LIST rv=", "WATCH rv=1003"},
			kinds:  []informer.IncidentKind{informer.Gone, informer.Gone},
		},
		{
			name: "a watch that is cut", faults: []fault{{End: "cut", After: 4}},
			want: []string{"STREAM rv=", "WATCH rv=1003"}, kinds: []informer.IncidentKind{informer.Disconnected},
		},
		{
			name: "half a frame", faults: []fault{{End: "eof", After: 4}, {End: "half"}},
			between: func(w *server) { w.Put("x", 9) },
			want:    []string{"STREAM rv=", "WATCH rv=1003", "WATCH rv=1003"},
			kinds:   []informer.IncidentKind{informer.Disconnected},
		},
		{
			name: "a broken frame", faults: []fault{{End: "eof", After: 4}, {End: "garbage"}},
			between: func(w *server) { w.Put("x", 9) },
			want:    []string{"STREAM rv=", "WATCH rv=1003", "WATCH rv=1003"},
			kinds:   []informer.IncidentKind{informer.Undecodable},
		},
		{
			name: "very short watches are no reason to list", faults: []fault{{End: "eof", After: 4}, {End: "eof"}, {End: "eof"}},
			want:  []string{"STREAM rv=", "WATCH rv=1003", "WATCH rv=1003", "WATCH rv=1003"},
			kinds: []informer.IncidentKind{informer.ShortWatch, informer.ShortWatch},
		},
		{
			name: "a 410 that is not said", faults: []fault{{End: "eof", After: 4}, {End: "eof"}, {End: "eof"}, {End: "eof"}},
			want:  []string{"STREAM rv=", "WATCH rv=1003", "WATCH rv=1003", "WATCH rv=1003", "STREAM rv=1003"},
			kinds: []informer.IncidentKind{informer.ShortWatch, informer.ShortWatch, informer.SilentGone},
		},
		{
			name: "429", faults: []fault{{Status: 429, Reason: "TooManyRequests", RetryAfter: 7}}, within: 8 * time.Second,
			want: []string{"STREAM rv=", "STREAM rv="}, kinds: []informer.IncidentKind{informer.Throttled},
		},
		{
			name: "connection refused", faults: []fault{{Refuse: true}, {Refuse: true}},
			want:  []string{"STREAM rv=", "STREAM rv=", "STREAM rv="},
			kinds: []informer.IncidentKind{informer.Refused, informer.Refused},
		},
		{
			name: "forbidden for a while", faults: []fault{{Status: 403, Reason: "Forbidden"}},
			want: []string{"STREAM rv=", "STREAM rv="}, kinds: []informer.IncidentKind{informer.Denied},
		},
		{
			name: "not served yet", faults: []fault{{Status: 404, Reason: "NotFound"}},
			want: []string{"STREAM rv=", "STREAM rv="}, kinds: []informer.IncidentKind{informer.NotServed},
		},
		{
			name: "a server that refuses streaming lists", faults: []fault{{Status: 422, Reason: "Invalid"}},
			want: []string{"STREAM rv=", "LIST rv=0", "WATCH rv=1003"}, kinds: []informer.IncidentKind{informer.NoStreamingList},
		},
		{
			name: "a server that ignores the wish for an end bookmark", faults: []fault{{NoEnd: true}, {}, {End: "410"}},
			within: 31 * time.Second,
			want:   []string{"STREAM rv=", "LIST rv=0", "WATCH rv=1003", "LIST rv=1003", "WATCH rv=1003"},
			kinds:  []informer.IncidentKind{informer.NoEndBookmark, informer.Gone},
		},
		{
			name: "no answer at all", faults: []fault{hang}, within: 32 * time.Second,
			want: []string{"STREAM rv=", "STREAM rv="}, kinds: []informer.IncidentKind{informer.Disconnected},
		},
		{
			name: "a list without an answer", opts: []informer.Option{informer.NoStreamingLists()}, faults: []fault{hang},
			within: 62 * time.Second,
			want:   []string{"LIST rv=0", "LIST rv=0", "WATCH rv=1003"}, kinds: []informer.IncidentKind{informer.Disconnected},
		},
		{
			name: "a list that is cut", opts: []informer.Option{informer.NoStreamingLists()}, faults: []fault{{End: "cut"}},
			want: []string{"LIST rv=0", "LIST rv=0", "WATCH rv=1003"}, kinds: []informer.IncidentKind{informer.Disconnected},
		},
		{
			name: "too large resource version in the stream", faults: []fault{{End: "504", After: 4}},
			want: []string{"STREAM rv=", "WATCH rv=1003"}, kinds: []informer.IncidentKind{informer.TooLarge},
		},
		{
			name: "500 in the stream", faults: []fault{{End: "500", After: 4}},
			want: []string{"STREAM rv=", "WATCH rv=1003"}, kinds: []informer.IncidentKind{informer.ServerError},
		},
		{
			name: "an event that cannot be decoded",
			faults: []fault{
				{Bad: `{"metadata":{"name":"c","namespace":"default","uid":"u3","resourceVersion":"1003"},"value":"seven"}`},
			},
			want: []string{"STREAM rv="}, kinds: []informer.IncidentKind{informer.Undecodable},
		},
		{
			name: "a frame that is no event", faults: []fault{{Bad: `null`}},
			want: []string{"STREAM rv="}, kinds: []informer.IncidentKind{informer.Undecodable},
		},
		{
			name: "events that come again", faults: []fault{{End: "eof", After: 4}, {Repeat: 3}},
			want: []string{"STREAM rv=", "WATCH rv=1003"},
		},
		{
			name: "a list from a cache that lags", opts: []informer.Option{informer.NoStreamingLists()},
			faults: []fault{{}, {End: "410"}, {Behind: 2}},
			want:   []string{"LIST rv=0", "WATCH rv=1003", "LIST rv=1003", "LIST rv=", "WATCH rv=1003"},
			kinds:  []informer.IncidentKind{informer.Gone, informer.TooLarge},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				for n, name := range []string{"a", "b", "c"} {
					w.Put(name, n)
				}
				w.Fail(listwatchtest.Faults(c.faults...))
				var incidents []informer.IncidentKind
				opts := append(c.opts, informer.OnError(func(in informer.Incident) { incidents = append(incidents, in.Kind) }))
				rec := newRecorder()
				i := w.informer(opts...)
				i.Handle(rec.handle)
				run(t, i, func() {
					ctx, cancel := context.WithTimeout(t.Context(), max(c.within, 5*time.Second))
					defer cancel()
					if err := i.WaitSynced(ctx); err != nil {
						t.Fatalf("wait until it is synced: %v", err)
					}
					after(time.Minute + time.Millisecond)
					if c.between != nil {
						c.between(w)
					}
					w.Put("a", 100)
					w.Delete("b")
					after(time.Minute)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Errorf("cache (-server +cache):\n%s", diff)
					}
					if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
						t.Errorf("handler (-server +handler):\n%s", diff)
					}
				})
				rec.check(t)
				got := kinds(w)
				for n := range got {
					if n >= len(c.want) || c.between != nil && n == len(c.want)-1 {
						break
					}
					if got[n] != c.want[n] {
						t.Errorf("request %d is %s, want %s", n, got[n], c.want[n])
					}
				}
				if len(got) != len(c.want) {
					t.Errorf("requests: %s", strings.Join(got, ", "))
				}
				if diff := cmp.Diff(c.kinds, incidents); diff != "" {
					t.Errorf("incidents (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestARelistOfAnUnchangedStateKeepsPointersAndDeliversNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 50 {
			w.Put(fmt.Sprint("o", n), n)
		}
		w.Fail(listwatchtest.Faults(fault{}, fault{}, fault{End: "410"}))
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			held := maps.Collect(i.All())
			calls := len(rec.all())
			after(30 * time.Minute) // several watches, one of them 410
			if s := i.Status(); s.Lists != 2 || s.Gone != 1 {
				t.Errorf("lists %d, gone %d, want 2 and 1", s.Lists, s.Gone)
			}
			for k, o := range i.All() {
				if held[k] != o {
					t.Errorf("%v is another pointer", k)
				}
			}
			if n := len(rec.all()) - calls; n != 0 || calls != 50 {
				t.Errorf("%d calls at first, %d for the unchanged state", calls, n)
			}
		})
	})
}

func TestRelistYieldsExactlyTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n, name := range []string{"changed", "gone", "reborn", "same"} {
			w.Put(name, n)
		}
		// The stream ends with 410 while the server lives on.
		w.Fail(listwatchtest.Faults(fault{End: "410", After: 5}, fault{Delay: time.Minute}))
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(10 * time.Second)
			w.Put("changed", 10)
			w.Delete("gone")
			w.Delete("reborn")
			w.Put("reborn", 12)
			w.Put("new", 14)
			w.Compact(0)
			after(2 * time.Minute)
		})
		rec.check(t)
		want := []string{
			"Added changed 0 initial", "Added gone 1 initial", "Added reborn 2 initial", "Added same 3 initial",
			"Modified changed 10", "Deleted gone 1 inferred", "Added new 14", "Deleted reborn 2 inferred", "Added reborn 12",
		}
		if diff := cmp.Diff(want, rec.lines()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestIdleInformerNeverListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(i *informer.Informer[*thing]) {
			for range 100 {
				after(10 * time.Minute)
				w.Tick()
				w.Compact(1) // history is hardly there
			}
			w.Put("b", 2)
			after(time.Second)
			s := i.Status()
			if s.Lists != 1 || s.Objects != 2 || s.Watches < 100 {
				t.Errorf("lists %d, watches %d, objects %d", s.Lists, s.Watches, s.Objects)
			}
		})
	})
}

func TestASilentWatchIsReplacedAfterMissedBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		// Three frames: the object, its end bookmark, one bookmark. Then nothing, for ever.
		w.Fail(listwatchtest.Faults(fault{End: "silent", After: 3}))
		var at time.Time
		var i *informer.Informer[*thing]
		begun := time.Now()
		i = w.informer(informer.OnError(func(in informer.Incident) {
			if in.Kind == informer.Silent {
				at = in.At
			}
		}))
		run(t, i, func() {
			after(61 * time.Second)
			w.Put("b", 2) // lost in the dead connection
			after(2 * time.Minute)
			if took := at.Sub(begun) - time.Minute; took > 90*time.Second || at.IsZero() {
				t.Errorf("noticed after %v", took)
			}
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Error(diff)
			}
			if n := i.Status().Lists; n != 1 {
				t.Errorf("%d lists", n)
			}
		})
	})
}

func TestWithoutBookmarksASilentWatchEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Fail(listwatchtest.Faults(fault{}, fault{End: "silent", NoBookmarks: true}, fault{End: "silent", NoBookmarks: true}))
		i := w.informer(informer.NoStreamingLists())
		run(t, i, func() {
			after(4 * time.Minute)
			if n := i.Status().Watches; n != 1 {
				t.Errorf("%d watches after 4 minutes", n)
			}
			after(25 * time.Minute)
			if s := i.Status(); s.Watches < 3 || s.Incidents[informer.Silent] != 2 || s.Lists != 1 {
				t.Errorf("%+v", s)
			}
		})
	})
}

func TestTheCacheFollowsAServerWhoseHistoryWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 2)
		i := w.informer()
		run(t, i, func() {
			after(time.Second)
			// Restored from a backup that knows only a.
			w.Rollback(1)
			w.Fail(listwatchtest.Faults(fault{End: "eof"}))
			after(20 * time.Minute)
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Errorf("cache (-server +cache):\n%s", diff)
			}
			if i.Status().Incidents[informer.WentBack] == 0 {
				t.Errorf("nobody said so: %v", i.Status().Incidents)
			}
		})
	})
}
