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
	"github.com/gapless-io/gapless/kube"
)

// asked is a request with all that matters for where it is answered from.
func asked(r request) string {
	s := r.String()
	if r.match != "" {
		s += " " + r.match
	}
	if r.limit > 0 {
		s += fmt.Sprint(" limit=", r.limit)
	}
	return s
}

// TestEachRequestAsksForTheRightVersion is the table of clients.md 1.2, row by row.
func TestEachRequestAsksForTheRightVersion(t *testing.T) {
	lists := []informer.Option{informer.NoStreamingLists()}
	gone := fault{status: 410, reason: "Expired"}
	late := fault{status: 504, reason: "Timeout", tooLarge: true}
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
			[]fault{{}, {end: "410", after: 2}},
			[]string{"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1005 NotOlderThan", "WATCH rv=1005"},
		},
		{
			"the watch said 410, streaming", nil,
			[]fault{{end: "410", after: 6}},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1005 NotOlderThan"},
		},
		{
			"the list said 410, LIST", lists,
			[]fault{{}, {end: "410", after: 1}, gone},
			[]string{"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1004 NotOlderThan", "LIST rv= limit=500", "WATCH rv=1004"},
		},
		{
			"the list said too large, LIST", lists,
			[]fault{{}, {end: "410", after: 1}, late},
			[]string{"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1004 NotOlderThan", "LIST rv= limit=500", "WATCH rv=1004"},
		},
		{
			"the streaming list said 410", nil,
			[]fault{{end: "410", after: 5}, gone},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1004 NotOlderThan", "STREAM rv= NotOlderThan"},
		},
		{
			"the streaming list said too large", nil,
			[]fault{{end: "410", after: 5}, {end: "504"}},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1004 NotOlderThan", "STREAM rv= NotOlderThan"},
		},
		{
			// A minute after the list said 410, all is well, and that is forgotten.
			"the list said 410 once", lists,
			[]fault{{}, {end: "410", after: 1}, gone, {}, {end: "410", after: 2}},
			[]string{
				"LIST rv=0 limit=500", "WATCH rv=1003", "LIST rv=1004 NotOlderThan", "LIST rv= limit=500", "WATCH rv=1004",
				"LIST rv=1005 NotOlderThan", "WATCH rv=1005",
			},
		},
		{
			"the last thing said was a bookmark", nil,
			[]fault{{end: "410", after: 7}},
			[]string{"STREAM rv= NotOlderThan", "STREAM rv=1005 NotOlderThan"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for n := range 3 {
					w.put(fmt.Sprint("o", n), n)
				}
				w.fail(faults(c.faults...))
				play(t, w, func(i *informer.Informer[*thing]) {
					after(20 * time.Second)
					w.put("o0", 7)
					after(time.Second)
					w.put("o1", 7)
					after(2 * time.Minute)
					w.put("o2", 7)
					after(2 * time.Minute)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
				}, c.opts...)
				var got []string
				for _, r := range w.seen() {
					got = append(got, asked(r))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnExpiredPageIsReadAgainInOneGo: the token of page 3 is refused; the whole state
// is asked for without pages, once.
func TestAnExpiredPageIsReadAgainInOneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 1200 {
			w.put(fmt.Sprintf("o%04d", n), n)
		}
		pages := 0
		w.fail(func(r request) fault {
			switch {
			case r.rv == "0":
				return fault{status: 504, reason: "Timeout", tooLarge: true} // so that it is paged
			case r.cont != "":
				if pages++; pages == 2 {
					w.put("late", 1)
					w.compact()
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
		for _, r := range w.seen() {
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

// TestNothingOfABrokenStreamingListIsKept: it breaks half-way, and before the second
// attempt one of the objects that it brought is deleted.
func TestNothingOfABrokenStreamingListIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 3 {
			w.put(fmt.Sprint("o", n), n)
		}
		w.fail(faults(fault{end: "cut", after: 2}, fault{delay: time.Second}))
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Millisecond)
			if i.Len() != 0 || i.ResourceVersion() != "" {
				t.Errorf("half a state is shown: %v at %q", cached(i), i.ResourceVersion())
			}
			w.delete("o0")
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

// TestOnlyTheAnnotatedBookmarkEndsAStreamingList, and what changes before it is part
// of the state.
func TestOnlyTheAnnotatedBookmarkEndsAStreamingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		server := scripted{watch: func(ctx context.Context, _ request, say func(...string)) error {
			say(frame("ADDED", w.object("a", 1, 1, 1)), frame("ADDED", w.object("b", 2, 2, 1)), mark("2", ""))
			linger(ctx, 5*time.Second)
			say(frame("MODIFIED", w.object("a", 1, 3, 2)), frame("DELETED", w.object("b", 2, 4, 1)), mark("4", theEnd))
			<-ctx.Done()
			return nil
		}}
		rec := newRecorder()
		i := server.informer()
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

// TestAStreamingListMayTakeLongWhileItBringsObjects: an hour here, with 20 s between
// two objects. What is no new object does not count.
func TestAStreamingListMayTakeLongWhileItBringsObjects(t *testing.T) {
	for name, fresh := range map[string]bool{"new objects": true, "the same object": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				server := scripted{watch: func(ctx context.Context, _ request, say func(...string)) error {
					for n := range 180 {
						object := "same"
						if fresh {
							object = fmt.Sprint("o", n)
						}
						say(frame("ADDED", w.object(object, 1, n+1, n)))
						linger(ctx, 20*time.Second)
					}
					say(mark("180", theEnd))
					linger(ctx, time.Hour)
					return nil
				}}
				i := server.informer()
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

// TestAProxyWithoutBookmarksCostsOneDeadline: somebody between us and the server
// swallows bookmarks, or ends streams before theirs. The state is there after one
// deadline, later 410s cost none, and a quiet watch is not taken for dead.
func TestAProxyWithoutBookmarksCostsOneDeadline(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      fault
		within time.Duration
		kind   informer.IncidentKind
	}{
		{"bookmarks are swallowed", fault{noEnd: true, noBookmarks: true}, 31 * time.Second, informer.NoEndBookmark},
		{"streams are ended early", fault{noEnd: true, noBookmarks: true, end: "eof", after: 2}, 10 * time.Second, informer.NoEndBookmark},
		{"streams are cut early", fault{noEnd: true, noBookmarks: true, end: "cut", after: 2}, 10 * time.Second, informer.Disconnected},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				w.put("b", 1)
				var expired atomic.Bool
				w.fail(func(r request) fault {
					switch {
					case r.initial:
						return c.f
					case r.watch && expired.CompareAndSwap(true, false):
						return fault{status: 410, reason: "Expired"}
					}
					return fault{noBookmarks: true}
				})
				play(t, w, func(i *informer.Informer[*thing]) {
					ctx, cancel := context.WithTimeout(t.Context(), c.within)
					defer cancel()
					if err := i.WaitSynced(ctx); err != nil {
						t.Fatal(err)
					}
					after(4 * time.Minute)
					if s := i.Status(); s.Watches != 1 || s.Incidents[informer.Silent] > 0 || s.Incidents[c.kind] == 0 {
						t.Errorf("status %+v", s)
					}
					w.put("a", 2)
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

// TestATableIsNoState: what an answer in kubectl's format brings is said, and taken
// for nothing else.
func TestATableIsNoState(t *testing.T) {
	const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"columnDefinitions":[],"rows":[]}`
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
		t.Error(err)
	}
}

// TestRunStopsAtOnceWhileItLists, whatever the request is doing. client-go leaves the
// goroutine of the list behind.
func TestRunStopsAtOnceWhileItLists(t *testing.T) {
	hang := func(ctx context.Context) (metav1.ListMeta, error) {
		<-ctx.Done()
		return metav1.ListMeta{}, context.Cause(ctx)
	}
	for name, list := range map[string]func(ctx context.Context, r request, each func([]byte) error) (metav1.ListMeta, error){
		"before the answer": func(ctx context.Context, _ request, _ func([]byte) error) (metav1.ListMeta, error) { return hang(ctx) },
		"between items": func(ctx context.Context, _ request, each func([]byte) error) (metav1.ListMeta, error) {
			if err := each([]byte(newWorld().object("a", 1, 1, 1))); err != nil {
				return metav1.ListMeta{}, err
			}
			return hang(ctx)
		},
		"on the second page": func(ctx context.Context, r request, _ func([]byte) error) (metav1.ListMeta, error) {
			if r.cont != "" {
				return hang(ctx)
			}
			return metav1.ListMeta{ResourceVersion: "9", Continue: "more"}, nil
		},
		"after a refusal": func(context.Context, request, func([]byte) error) (metav1.ListMeta, error) {
			return metav1.ListMeta{}, errRefused
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run(t, scripted{list: list}.informer(informer.NoStreamingLists()), func() { after(20 * time.Second) })
			})
		})
	}
}

// TestStop4xxGivesUpAtTheStartOnly: a program that may not read fails when it starts,
// and one that may no longer read waits.
func TestStop4xxGivesUpAtTheStartOnly(t *testing.T) {
	for code, want := range map[int]kube.Outcome{401: kube.OutcomeUnauthorized, 403: kube.OutcomeForbidden, 404: kube.OutcomeNotFound} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reason := map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}[code]
				w := newWorld()
				w.put("a", 1)
				refuses := func(request) fault { return fault{status: code, reason: reason} }
				w.fail(refuses)
				i := w.informer(informer.Stop4xx())
				if err := i.Run(t.Context()); kube.Classify(err) != want || !strings.Contains(err.Error(), "things") {
					t.Errorf("run: %v", err)
				}
				if n := len(w.seen()); n != 1 {
					t.Errorf("%d requests", n)
				}
				w.fail(nil)
				run(t, i, func() { // it can be run again, and now it may
					after(time.Second)
					w.fail(refuses)
					after(time.Hour)
					w.fail(nil)
					w.put("a", 2)
					after(11 * time.Minute)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
				})
			})
		})
	}
}
