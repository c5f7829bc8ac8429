package share_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// collected runs the garbage collector until done says so; only the deadline of the
// test ends it otherwise.
func collected(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for runtime.GC(); !done(); runtime.GC() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}

func TestAForgottenLeaseIsReleasedAndReported(t *testing.T) {
	s := newShelf()
	s.put("a", 1)
	var log strings.Builder
	leaks := make(chan share.Leak, 10)
	pool, stop := running(t, share.Config{Logger: logTo(&log), OnLeak: func(l share.Leak) { leaks <- l }})
	func() {
		l := take(t, pool, s.source("books"))
		must(t, l.WaitSynced(t.Context()))
		reg := l.Handle(func(context.Context, informer.Event[*book]) error { return nil })
		must(t, reg.Stop(t.Context())) // a handler that was stopped holds nothing
	}()
	collected(t, "the lease is not given back", func() bool { return len(pool.Shared()) == 0 })
	leak := <-leaks
	if leak.Source != "books" || !strings.Contains(leak.Taken, "shelf_test.go:") {
		t.Errorf("the leak is %+v", leak)
	}
	collected(t, "its watch is open", func() bool { open, _ := s.watches(); return open == 0 })
	stop()
	if !strings.Contains(log.String(), "lease was forgotten, not released") || !strings.Contains(log.String(), leak.Taken) {
		t.Errorf("the log says %q", log.String())
	}
}

func TestAReleasedLeaseIsNotReported(t *testing.T) {
	s := newShelf()
	leaks := make(chan share.Leak, 10)
	pool, _ := running(t, share.Config{OnLeak: func(l share.Leak) { leaks <- l }})
	var forgotten weak.Pointer[share.Lease[*book]]
	func() {
		l := take(t, pool, s.source("books"))
		must(t, l.WaitSynced(t.Context()))
		must(t, l.Release(t.Context()))
		forgotten = weak.Make(l)
		take(t, pool, s.source("later")) // forgotten, and found out after the other one
	}()
	collected(t, "a released lease stays in memory", func() bool { return forgotten.Value() == nil })
	if leak := <-leaks; leak.Source != "later" || len(leaks) > 0 {
		t.Errorf("the first leak is of %s, %d more", leak.Source, len(leaks))
	}
}

func TestAHandlerHoldsItsLease(t *testing.T) {
	s := newShelf()
	s.put("a", 1)
	leaks := make(chan share.Leak, 10)
	calls := make(chan int)
	pool, stop := running(t, share.Config{OnLeak: func(l share.Leak) { leaks <- l }})
	func() {
		take(t, pool, s.source("books")).Handle(func(ctx context.Context, e informer.Event[*book]) error {
			select {
			case calls <- e.New.Value:
			case <-ctx.Done():
			}
			return nil
		})
		take(t, pool, s.source("nobody's"))
	}()
	<-calls
	// The other lease is a witness: when it was found, this one could have been.
	collected(t, "no lease is found", func() bool { return len(leaks) > 0 })
	s.put("a", 2)
	if got := <-calls; got != 2 {
		t.Errorf("the handler got %d", got)
	}
	if held := pool.Shared(); len(held) != 1 || held[0].Source != "books" {
		t.Errorf("held: %v", held)
	}
	stop()
}

func TestAnUnreachablePoolIsFreedWithItsLeases(t *testing.T) {
	var forgotten weak.Pointer[share.Pool]
	func() {
		pool := share.New(share.Config{})
		forgotten = weak.Make(pool)
		take(t, pool, newShelf().source("books")).Handle(func(context.Context, informer.Event[*book]) error { return nil })
	}()
	collected(t, "the pool stays in memory", func() bool { return forgotten.Value() == nil })
}

func TestTheLastReleaseFreesTheObjects(t *testing.T) {
	s := newShelf()
	s.put("a", 1)
	pool, _ := running(t, share.Config{})
	var object weak.Pointer[book]
	func() {
		l := take(t, pool, s.source("books"))
		must(t, l.WaitSynced(t.Context()))
		a, _ := l.Get(keyOf("a"))
		object = weak.Make(a)
		must(t, l.Release(t.Context()))
	}()
	collected(t, "the cache stays in memory", func() bool { return object.Value() == nil })
}
