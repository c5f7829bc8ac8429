package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

// asked is a request with all that matters for where it is answered from.
func asked(r request) string {
	s := r.String()
	if r.Match != "" {
		s += " " + r.Match
	}
	if r.Limit > 0 {
		s += fmt.Sprint(" limit=", r.Limit)
	}
	return s
}

// TestEachRequestAsksForTheRightVersion has each request that an informer makes, with its
// resourceVersion.
func TestEachRequestAsksForTheRightVersion(t *testing.T) {
	lists := []informer.Option{informer.NoStreamingLists()}
	gone := fault{Status: 410, Reason: "Expired"}
	late := fault{Status: 504, Reason: "Timeout", TooLarge: true}
	for _, c := range []struct {
		name   string
		opts   []informer.Option
		faults []fault
		want   []string
	}{
		{"never synced, LIST", lists, nil, []string{"LIST rv=0 limit=500", "WATCH rv=1003"}},
		{"never synced, streaming", nil, nil, []string{"STREAM rv= NotOlderThan"}},
		{
			"the watch said 410, LIST", lists,
			[]fault{{}, {End: "410", After: 2}},
			[]string{"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1005 NotOlderThan", "WATCH rv=1005"},
		},
		{
			"the watch said 410, streaming", nil,
			[]fault{{End: "410", After: 6}},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1005 NotOlderThan"},
		},
		{
			"the list said 410, LIST", lists,
			[]fault{{}, {End: "410", After: 1}, gone},
			[]string{"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1004 NotOlderThan", "LIST rv= limit=500", "WATCH rv=1004"},
		},
		{
			"the list said too large, LIST", lists,
			[]fault{{}, {End: "410", After: 1}, late},
			[]string{"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1004 NotOlderThan", "LIST rv= limit=500", "WATCH rv=1004"},
		},
		{
			"the streaming list said 410", nil,
			[]fault{{End: "410", After: 5}, gone},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1004 NotOlderThan", "STREAM rv= NotOlderThan"},
		},
		{
			"the streaming list said too large", nil,
			[]fault{{End: "410", After: 5}, {End: "504"}},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1004 NotOlderThan", "STREAM rv= NotOlderThan"},
		},
		{
			// A minute after the list said 410, all is well, and that is forgotten.
			"the list said 410 once", lists,
			[]fault{{}, {End: "410", After: 1}, gone, {}, {End: "410", After: 2}},
			[]string{
				"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1004 NotOlderThan", "LIST rv= limit=500", "WATCH rv=1004",
				"LIST rv=1005 NotOlderThan", "WATCH rv=1005",
			},
		},
		{
			"the last thing said was a bookmark", nil,
			[]fault{{End: "410", After: 7}},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1005 NotOlderThan"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				for n := range 3 {
					w.Put(fmt.Sprint("o", n), n)
				}
				w.Fail(listwatchtest.Faults(c.faults...))
				play(t, w, func(i *informer.Informer[*thing]) {
					after(20 * time.Second)
					w.Put("o0", 7)
					after(time.Second)
					w.Put("o1", 7)
					after(2 * time.Minute)
					w.Put("o2", 7)
					after(2 * time.Minute)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
				}, c.opts...)
				var got []string
				for _, r := range w.Requests() {
					got = append(got, asked(r))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnExpiredContinueTokenLeadsToAnUnpagedList, one request without a limit.
func TestAnExpiredContinueTokenLeadsToAnUnpagedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 1200 {
			w.Put(fmt.Sprintf("o%04d", n), n)
		}
		pages := 0
		w.Fail(func(r request) fault {
			switch {
			case r.RV == "0":
				return fault{Status: 504, Reason: "Timeout", TooLarge: true} // so that it is paged
			case r.Continue != "":
				if pages++; pages == 2 {
					w.Put("late", 1)
					w.Compact(0)
				}
			}
			return fault{}
		})
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Minute)
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Error("the cache is not the server's state")
			}
		}, informer.NoStreamingLists())
		var got []string
		for _, r := range w.Requests() {
			got = append(got, asked(r))
		}
		want := []string{
			"LIST rv=0 limit=500", "LIST rv= limit=500", "LIST rv= continued limit=500", "LIST rv= continued limit=500",
			"LIST rv=", "WATCH rv=2201",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestABrokenStreamingListIsDiscarded: one of its objects is deleted before the second
// attempt.
func TestABrokenStreamingListIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 3 {
			w.Put(fmt.Sprint("o", n), n)
		}
		w.Fail(listwatchtest.Faults(fault{End: "cut", After: 2}, fault{Delay: time.Second}))
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Millisecond)
			if i.Len() != 0 || i.ResourceVersion() != "" {
				t.Errorf("half a state is shown: %v at %q", cached(i), i.ResourceVersion())
			}
			w.Delete("o0")
			after(time.Minute)
			if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
				t.Error(diff)
			}
		})
		rec.check(t)
		if diff := cmp.Diff([]string{"Added o1 1 initial", "Added o2 2 initial"}, rec.lines()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"STREAM rv=", "STREAM rv="}, kinds(w)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOnlyTheAnnotatedBookmarkEndsAStreamingList; changes before it are part of the state.
func TestOnlyTheAnnotatedBookmarkEndsAStreamingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := listwatchtest.Script{OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
			say(listwatchtest.Frame("ADDED", object("a", 1, 1, 1)), listwatchtest.Frame("ADDED", object("b", 2, 2, 1)),
				listwatchtest.Bookmark("2"))
			sleep(ctx, 5*time.Second)
			say(listwatchtest.Frame("MODIFIED", object("a", 1, 3, 2)), listwatchtest.Frame("DELETED", object("b", 2, 4, 1)),
				listwatchtest.InitialEventsEnd("4"))
			<-ctx.Done()
			return nil
		}}
		rec := newRecorder()
		i := scripted(server)
		i.Handle(rec.handle)
		run(t, i, func() {
			after(4 * time.Second)
			if i.ResourceVersion() != "" || len(rec.lines()) > 0 {
				t.Errorf("synced by a plain bookmark at %s: %v", i.ResourceVersion(), rec.lines())
			}
			after(10 * time.Second)
			if s := i.Status(); s.RV != "4" || s.Streams != 1 || len(s.Incidents) > 0 {
				t.Errorf("status %+v", s)
			}
		})
		if diff := cmp.Diff([]string{"Added a 2 initial"}, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAStreamingListMayTakeLongWhileItBringsObjects: an hour here, with 20 s between two
// objects. Only new objects extend the deadline.
func TestAStreamingListMayTakeLongWhileItBringsObjects(t *testing.T) {
	for name, fresh := range map[string]bool{"new objects": true, "the same object": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := listwatchtest.Script{OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
					for n := range 180 {
						name := "same"
						if fresh {
							name = fmt.Sprint("o", n)
						}
						say(listwatchtest.Frame("ADDED", object(name, 1, n+1, n)))
						sleep(ctx, 20*time.Second)
						if ctx.Err() != nil {
							return ctx.Err() // the informer has left, and could still read the end
						}
					}
					say(listwatchtest.InitialEventsEnd("180"))
					sleep(ctx, time.Hour)
					return nil
				}}
				i := scripted(server)
				run(t, i, func() {
					after(2 * time.Minute)
					if s := i.Status(); (s.Lists == 1) != fresh || (s.Incidents[informer.NoEndBookmark] == 0) != fresh {
						t.Errorf("after two minutes: %+v", s)
					}
					after(time.Hour)
					if got := i.Len(); fresh && got != 180 {
						t.Errorf("%d objects", got)
					}
				})
			})
		})
	}
}

// TestMissingBookmarksDelayTheFirstSyncByOneDeadline: a proxy drops bookmarks, or ends
// streams before them. The cache is synced after one deadline, re-lists wait for none, and
// a quiet watch is not considered dead.
func TestMissingBookmarksDelayTheFirstSyncByOneDeadline(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      fault
		within time.Duration
		kind   informer.IncidentKind
	}{
		{"bookmarks are swallowed", fault{NoEnd: true, NoBookmarks: true}, 31 * time.Second, informer.NoEndBookmark},
		{
			"streams are ended early",
			fault{NoEnd: true, NoBookmarks: true, End: "eof", After: 2},
			10 * time.Second,
			informer.NoEndBookmark,
		},
		{
			"streams are cut early",
			fault{NoEnd: true, NoBookmarks: true, End: "cut", After: 2},
			10 * time.Second,
			informer.Disconnected,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Put("b", 1)
				var expired atomic.Bool
				w.Fail(func(r request) fault {
					switch {
					case r.Initial:
						return c.f
					case r.Watch && expired.CompareAndSwap(true, false):
						return fault{Status: 410, Reason: "Expired"}
					}
					return fault{NoBookmarks: true}
				})
				play(t, w, func(i *informer.Informer[*thing]) {
					ctx, cancel := context.WithTimeout(t.Context(), c.within)
					defer cancel()
					if err := i.WaitSynced(ctx); err != nil {
						t.Fatalf("wait until it is synced: %v", err)
					}
					after(4 * time.Minute)
					if s := i.Status(); s.Watches != 1 || s.Incidents[informer.Silent] > 0 || s.Incidents[c.kind] == 0 {
						t.Errorf("status %+v", s)
					}
					w.Put("a", 2)
					expired.Store(true)
					after(11 * time.Minute) // until the watch ends, and a 410
					if s := i.Status(); s.Gone != 1 || s.State != "watching" {
						t.Errorf("status %+v", s)
					}
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
				})
			})
		})
	}
}

// TestATableResponseIsAnError: a response in kubectl's Table format is reported and not
// used.
func TestATableResponseIsAnError(t *testing.T) {
	const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},` +
		`"columnDefinitions":[],"rows":[]}`
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "true" {
			rw.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		_, _ = rw.Write([]byte(table))
	}))
	defer srv.Close()
	defer srv.CloseClientConnections()
	incidents := make(chan informer.Incident, 64)
	i := informer.New(informer.For[*corev1.Pod](&rest.Config{Host: srv.URL}, corev1.SchemeGroupVersion.WithResource("pods")),
		informer.OnError(func(in informer.Incident) {
			select {
			case incidents <- in:
			default: // the first are enough
			}
		}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	for in := range incidents {
		if in.Kind == informer.Undecodable {
			text(t, in.Err, "Table, no list")
			break
		}
	}
	if i.ResourceVersion() != "" {
		t.Error("it is taken for an empty state")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

// TestRunStopsAtOnceWhileItLists at any point of the request. client-go leaks the goroutine
// of the list.
func TestRunStopsAtOnceWhileItLists(t *testing.T) {
	hang := func(ctx context.Context) (metav1.ListMeta, error) {
		<-ctx.Done()
		return metav1.ListMeta{}, context.Cause(ctx)
	}
	for name, list := range map[string]func(ctx context.Context, r request, each func([]byte) error) (metav1.ListMeta, error){
		"before the answer": func(ctx context.Context, _ request, _ func([]byte) error) (metav1.ListMeta, error) {
			return hang(ctx)
		},
		"between items": func(ctx context.Context, _ request, each func([]byte) error) (metav1.ListMeta, error) {
			if err := each([]byte(object("a", 1, 1, 1))); err != nil {
				return metav1.ListMeta{}, err
			}
			return hang(ctx)
		},
		"on the second page": func(ctx context.Context, r request, _ func([]byte) error) (metav1.ListMeta, error) {
			if r.Continue != "" {
				return hang(ctx)
			}
			return metav1.ListMeta{ResourceVersion: "9", Continue: "more"}, nil
		},
		"after a refusal": func(context.Context, request, func([]byte) error) (metav1.ListMeta, error) {
			return metav1.ListMeta{}, listwatchtest.ErrRefused
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run(t, scripted(listwatchtest.Script{OnList: list}, informer.NoStreamingLists()),
					func() { after(20 * time.Second) })
			})
		})
	}
}

// TestStop4xxGivesUpAtTheStartOnly: a program without permission fails at the start; one
// that loses its permission later waits.
func TestStop4xxGivesUpAtTheStartOnly(t *testing.T) {
	for code, want := range map[int]kube.Outcome{
		401: kube.OutcomeUnauthorized, 403: kube.OutcomeForbidden, 404: kube.OutcomeNotFound,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reason := map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}[code]
				w := newServer()
				w.Put("a", 1)
				refuses := func(request) fault { return fault{Status: code, Reason: metav1.StatusReason(reason)} }
				w.Fail(refuses)
				i := w.informer(informer.Stop4xx())
				if err := i.Run(t.Context()); kube.Classify(err) != want || !strings.Contains(err.Error(), "things") {
					t.Errorf("run: %v", err)
				}
				if n := len(w.Requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
				w.Fail(nil)
				run(t, i, func() { // it can be run again, and now it may
					after(time.Second)
					w.Fail(refuses)
					after(time.Hour)
					w.Fail(nil)
					w.Put("a", 2)
					after(11 * time.Minute)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
				})
			})
		})
	}
}
