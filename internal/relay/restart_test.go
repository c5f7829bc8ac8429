package relay_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// starting is an upstream that says of its resource what a kube-apiserver says of custom resources for a
// moment after its start.
type starting struct {
	scripted

	unnamed  *atomic.Bool // discovery lacks the resource
	unserved *atomic.Bool // requests for it are 404
	unready  *atomic.Bool // /readyz is 500
	silent   *atomic.Bool // /readyz is 404
}

func newStarting() starting {
	return starting{newScripted(), new(atomic.Bool), new(atomic.Bool), new(atomic.Bool), new(atomic.Bool)}
}

func (s starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // the relay may have left
	}
	const missing = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	switch path := r.URL.Path; {
	case path == "/readyz" && s.silent.Load(), strings.HasPrefix(path, "/api/v1/things") && s.unserved.Load():
		answer(http.StatusNotFound, missing)
	case path == "/readyz" && s.unready.Load():
		answer(http.StatusInternalServerError, `[-]poststarthook/start-apiextensions-controllers failed`)
	case path == "/readyz":
		answer(http.StatusOK, "ok")
	case path == "/api/v1" && s.unnamed.Load():
		answer(http.StatusOK,
			`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"others","singularName":"other","namespaced":true,"kind":"Other","verbs":["get"]}]}`)
	default:
		s.scripted.ServeHTTP(w, r)
	}
}

// watched is a watch of the relay that a goroutine reads.
type watched struct {
	events chan wire.WatchEvent
	ended  chan error
}

func watchIt(t *testing.T, s *served, rv string) watched {
	t.Helper()
	target, known := s.target()
	if !known {
		t.Fatal("the relay does not know the resource")
	}
	w, err := s.relay.Reader().Watch(t.Context(), target, options(rv))
	if err != nil {
		t.Fatalf("watch reader: %v", err)
	}
	out := watched{make(chan wire.WatchEvent, 10), make(chan error, 1)}
	go func() { // it ends with the watch
		defer w.Close()
		for {
			events, err := w.Next(t.Context())
			if err != nil {
				out.ended <- err
				return
			}
			for _, e := range events {
				out.events <- e
			}
		}
	}()
	return out
}

// next returns the version of the next event.
func (w watched) next(t *testing.T) int {
	t.Helper()
	select {
	case e := <-w.events:
		return int(e.Object.ResourceVersion()) //nolint:gosec // small
	case err := <-w.ended:
		t.Fatalf("the watch ended with %v, want an event", err)
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	return 0
}

func ready(t *testing.T, s *served) {
	t.Helper()
	if err := s.relay.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
}

// TestAMirrorEndsOnlyWhenAReadyUpstreamAnswers404: at a restart of upstream no watch is dropped, whatever
// a kube-apiserver says before it is ready. A definition that is deleted ends the watches.
func TestAMirrorEndsOnlyWhenAReadyUpstreamAnswers404(t *testing.T) {
	for _, c := range []struct {
		name string
		lie  func(starting, bool)
		long time.Duration
	}{
		{"discovery lacks it", func(s starting, on bool) { s.unnamed.Store(on) }, 10 * time.Minute},
		{
			"it is 404 and upstream not ready", func(s starting, on bool) { s.unserved.Store(on); s.unready.Store(on) },
			10 * time.Minute,
		},
		{"discovery lacks it, 404, not ready", func(s starting, on bool) {
			s.unnamed.Store(on)
			s.unserved.Store(on)
			s.unready.Store(on)
		}, 10 * time.Minute},
		{
			"it is 404 and upstream does not say whether it is ready",
			func(s starting, on bool) { s.unserved.Store(on); s.silent.Store(on) }, 20 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newStarting()
				world.Put("a", 1)
				s := serve(t, world)
				defer s.stop()
				ready(t, s)
				w := watchIt(t, s, "1001")
				c.lie(world, true)
				world.Restart()
				wait(t.Context(), c.long)
				c.lie(world, false)
				wait(t.Context(), 5*time.Second)
				if rv := world.Put("b", 1); w.next(t) != rv {
					t.Error("the watch lacks the change after the restart")
				}
				world.unnamed.Store(true)
				world.unserved.Store(true)
				world.Restart()
				began := time.Now()
				if err := <-w.ended; !errors.Is(err, io.EOF) {
					t.Errorf("the watch of a resource that is gone ended with %v, want its end", err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("after %v, want a minute at most", took)
				}
				if _, known := s.target(); known {
					t.Error("the resource is known still")
				}
			})
		})
	}
}

// replacedWorld is an upstream, at 1003, whose history up to 1020 was lost in a restore, and its relay.
func replacedWorld(t *testing.T) (scripted, *served) {
	t.Helper()
	world := newScripted()
	world.SilentAhead, world.BookmarkEvery = true, time.Second
	world.Put("a", 1)
	copied := world.Save()
	s := serve(t, world)
	ready(t, s)
	for range 19 {
		world.Put("lost", 1)
	}
	w := watchIt(t, s, "1001")
	for range 19 {
		w.next(t)
	}
	connected := watchIt(t, s, "1020")
	world.Restore(copied)
	world.Put("b", 1)
	world.Put("b", 2)
	for _, of := range []watched{w, connected} {
		if err := <-of.ended; replacedBy(err) == nil {
			t.Fatalf("a connected watch ended with %v, want 410 because the history was replaced", err)
		}
	}
	return world, s
}

// replacedBy returns the 410 for a version of another history; nil: the error is another one.
func replacedBy(err error) *kube.ExpiredError {
	if e, is := errors.AsType[*kube.ExpiredError](err); is && e.Reason == kube.ReasonReplaced {
		return e
	}
	return nil
}

// TestAVersionAheadOfTheMirrorIsWaitedForAlsoInTheReplacedRange: a reader of the new history, who is one
// version ahead of the mirror, must not be taken for one of the lost history.
func TestAVersionAheadOfTheMirrorIsWaitedForAlsoInTheReplacedRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world, s := replacedWorld(t)
		defer s.stop()
		target, _ := s.target()
		world.Tick() // 1004, of which the mirror does not know
		w := watchIt(t, s, "1004")
		if rv := world.Put("c", 1); w.next(t) != rv {
			t.Error("the watch lacks the change after 1004")
		}
		world.Tick()
		if l, err := s.relay.Reader().List(t.Context(), target, options("1006")); err != nil || l.ResourceVersion < 1006 {
			t.Errorf("the list not older than 1006: %+v, %v", l, err)
		}
		if _, err := s.relay.Reader().Watch(t.Context(), target, options("1015")); replacedBy(err) == nil {
			t.Errorf("a watch from a version that only the lost history had: %v, want 410", err)
		}
	})
}

// TestAWatchFromAVersionThatUpstreamNeverHadIs410, and a list that is not older than it upstream's 504.
func TestAWatchFromAVersionThatUpstreamNeverHadIs410(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newScripted()
		world.Put("a", 1)
		s := serve(t, world)
		defer s.stop()
		ready(t, s)
		target, _ := s.target()
		began := time.Now()
		_, err := s.relay.Reader().Watch(t.Context(), target, options("5000"))
		if e := replacedBy(err); e == nil || e.Requested != 5000 || e.Oldest != 1001 {
			t.Errorf("the watch: %v, want 410 because the history is another one", err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 10*time.Second {
			t.Errorf("after %v, want about 3 s", took)
		}
		if _, err := s.relay.Reader().List(t.Context(), target, options("5000")); kube.Classify(err) != kube.OutcomeTooLarge {
			t.Errorf("the list: %v, want 504", err)
		}
		ahead := options("1003")
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go func() { // it ends with the test's first two lines
			wait(ctx, 2*time.Second)
			world.Put("a", 2)
			world.Put("a", 3)
		}()
		w, err := s.relay.Reader().Watch(ctx, target, ahead)
		if err != nil {
			t.Fatalf("a watch from a version that comes within 3 s: %v", err)
		}
		w.Close()
	})
}

// TestAWatchThatWasPassedOnEndsWhenTheHistoryIsReplaced: upstream stays silent about its version.
func TestAWatchThatWasPassedOnEndsWhenTheHistoryIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newScripted()
		world.BookmarkEvery = 10 * time.Second
		for i := range 5 {
			world.Put("a", i)
		}
		copied := world.Save()
		s := serve(t, world)
		defer s.stop()
		ready(t, s)
		const watch = "/api/v1/things?watch=1&resourceVersion=1003"
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, watch, http.NoBody)
		of, served := s.relay.Reading(req)
		if !served || of.Replaced == nil {
			t.Fatalf("a watch is served: %t, can end: %t, want both", served, of.Replaced != nil)
		}
		_, err := of.Asked.Reader.Watch(t.Context(), of.Route.Target, of.Asked.Options)
		if _, passed := errors.AsType[*apiserver.FallbackError](err); !passed {
			t.Fatalf("a watch from before the mirror: %v, want that it is passed on", err)
		}
		world.Restart()
		wait(t.Context(), time.Minute)
		select {
		case <-of.Replaced:
			t.Fatal("it ends at a plain restart")
		default:
		}
		for range 20 {
			world.Put("b", 1)
		}
		wait(t.Context(), time.Minute)
		world.Restore(copied)
		world.Put("c", 1)
		select {
		case <-of.Replaced:
		case <-time.After(time.Minute):
			t.Error("it does not end")
		}
	})
}

// TestTheReplacedRangeIsRememberedOverARestart restores upstream, and starts the relay again.
func TestTheReplacedRangeIsRememberedOverARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	upstream.Keep(t)
	dir := t.TempDir()
	s := openRelay(t, upstream.RESTConfig(), dir, nil)
	relayed := clientset(t, s.config())
	for i := range 20 {
		put(t, direct, "lost", strconv.Itoa(i))
	}
	_, rv := list(t, relayed, metav1.ListOptions{})
	connected := follow(t, relayed, rv)
	upstream.RestartWith(t, "older")
	put(t, direct, "new", "1")
	if e := events(t, connected, 1)[0]; !strings.HasPrefix(e, "ERROR 410") {
		t.Fatalf("a connected reader got %q, want 410", e)
	}
	s.stop()
	s = openRelay(t, upstream.RESTConfig(), dir, nil)
	w := follow(t, clientset(t, s.config()), rv)
	var e watch.Event
	select {
	case e = <-w.ResultChan():
	case <-time.After(20 * time.Second):
		t.Fatal("a reader of the lost history got nothing")
	}
	if status, is := e.Object.(*metav1.Status); !is || status.Code != http.StatusGone ||
		!strings.Contains(status.Message, "too old") ||
		status.Details == nil || len(status.Details.Causes) < 3 || status.Details.Causes[2].Message != "Replaced" {
		t.Errorf("a reader of the lost history got %+v, want 410 because it was replaced", e)
	}
}
