package share_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
)

func TestLeasesOfOneSourceShareOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		pool, _ := running(t, share.Config{})
		source := s.source("books")
		first, second := take(t, pool, source), take(t, pool, source)
		other := take(t, pool, s.source("books")) // From: nobody knows that it is the same
		must(t, first.WaitSynced(t.Context()))
		must(t, second.WaitSynced(t.Context()))
		must(t, other.WaitSynced(t.Context()))
		a, _ := first.Get(keyOf("a"))
		if b, found := second.Get(keyOf("a")); !found || a != b {
			t.Errorf("the second lease has %p, the first %p", b, a)
		}
		if c, found := other.Get(keyOf("a")); !found || a == c {
			t.Error("sources that cannot be compared are shared")
		}
		if open, opened := s.watches(); open != 2 || opened != 2 {
			t.Errorf("%d of %d watches are open, want 2 of 2", open, opened)
		}
		for _, l := range []*share.Lease[*book]{first, second, other} {
			must(t, l.Release(t.Context()))
		}
	})
}

func TestTheLastReleaseStopsTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		pool, _ := running(t, share.Config{})
		source := s.source("books")
		first, second := take(t, pool, source), take(t, pool, source)
		must(t, first.WaitSynced(t.Context()))
		must(t, first.Release(t.Context()))
		if open, _ := s.watches(); open != 1 {
			t.Fatalf("%d watches are open while there is a lease", open)
		}
		must(t, second.WaitRevision(t.Context(), s.put("b", 2)))
		must(t, second.Release(t.Context()))
		if open, _ := s.watches(); open != 0 {
			t.Errorf("%d watches are open after the last release", open)
		}
		if left := pool.Shared(); len(left) != 0 {
			t.Errorf("the pool still has %v", left)
		}
		s.put("c", 3)
		if second.Len() != 2 {
			t.Errorf("a released lease has %d objects, want the 2 that there were", second.Len())
		}

		third := take(t, pool, source)
		must(t, third.WaitSynced(t.Context()))
		if _, opened := s.watches(); third.Len() != 3 || opened != 2 {
			t.Errorf("a later lease has %d objects after %d watches, want 3 after 2", third.Len(), opened)
		}
		must(t, third.Release(t.Context()))
	})
}

func TestReleaseEndsOnlyTheHandlersAndLoopsOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		pool, _ := running(t, share.Config{})
		source := s.source("books")
		mine, yours := take(t, pool, source), take(t, pool, source)
		var calls [3]int
		handler := mine.Handle(func(context.Context, informer.Event[*book]) error { calls[0]++; return nil })
		reconciler := mine.Reconcile(func(context.Context, informer.Key) error { calls[1]++; return nil })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range mine.Events(t.Context()) {
				calls[2]++
			}
		}()
		heard := 0
		yours.Handle(func(context.Context, informer.Event[*book]) error { heard++; return nil })
		synctest.Wait()
		if calls != [3]int{1, 1, 1} || heard != 1 {
			t.Fatalf("calls at the beginning: %v and %d", calls, heard)
		}
		must(t, mine.Release(t.Context()))
		<-ended
		s.put("a", 2)
		synctest.Wait()
		if calls != [3]int{1, 1, 1} || heard != 2 {
			t.Errorf("calls after the release: %v and %d, want 1 each and 2", calls, heard)
		}
		for _, r := range []*informer.Registration{handler, reconciler} {
			if !errors.Is(r.Err(), informer.ErrStopped) {
				t.Errorf("%s says %v", r.Name(), r.Err())
			}
		}
		late := mine.Handle(func(context.Context, informer.Event[*book]) error { calls[0]++; return nil })
		mine.Reconcile(func(context.Context, informer.Key) error { calls[1]++; return nil })
		for range mine.Events(t.Context()) {
			calls[2]++
		}
		synctest.Wait()
		if calls != [3]int{1, 1, 1} || late.Err() == nil {
			t.Errorf("calls of handlers that came after the release: %v, error %v", calls, late.Err())
		}
		must(t, yours.Release(t.Context()))
	})
}

func TestReleaseWaitsForRunningCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		pool, stop := running(t, share.Config{})
		l := take(t, pool, s.source("books"))
		let := make(chan struct{})
		var calls atomic.Int64
		slow := func() error {
			calls.Add(1)
			defer calls.Add(-1)
			<-let
			return nil
		}
		l.Handle(func(context.Context, informer.Event[*book]) error { return slow() })
		go func() {
			for range l.Events(t.Context()) {
				_ = slow()
			}
		}()
		synctest.Wait()
		if n := calls.Load(); n != 2 {
			t.Fatalf("%d calls are running, want 2", n)
		}
		brief, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no patience"))
		defer cancel()
		if err := l.Release(brief); err == nil || !strings.Contains(err.Error(), "no patience") {
			t.Errorf("a release that did not wait long enough says %v", err)
		}
		if left := pool.Shared(); len(left) != 0 {
			t.Errorf("a lease whose holder does not wait is still held: %v", left)
		}
		released := make(chan error, 1)
		go func() { released <- l.Release(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-released:
			t.Errorf("a second release did not wait for the calls, it says %v", err)
		default:
		}
		close(let)
		must(t, <-released)
		if n := calls.Load(); n != 0 {
			t.Errorf("%d calls run after the release", n)
		}
		must(t, l.Release(t.Context())) // and again
		stop()
	})
}

func TestReleaseEndsTheWaitsOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		pool := share.New(share.Config{})
		l := take(t, pool, s.source("books")) // the pool does not run, so nothing will come
		said := make(chan error, 3)
		waits := map[string]func() error{
			"WaitSynced":   func() error { return l.WaitSynced(t.Context()) },
			"WaitRevision": func() error { return l.WaitRevision(t.Context(), "99") },
			"Until": func() error {
				_, err := l.Until(t.Context(), keyOf("a"), func(*book, bool) bool { return true })
				return err
			},
		}
		for _, wait := range waits {
			go func() { said <- wait() }()
		}
		synctest.Wait()
		must(t, l.Release(t.Context()))
		for range waits {
			if err := <-said; !errors.Is(err, share.ErrReleased) {
				t.Errorf("a wait that was under way says %v", err)
			}
		}
		for name, wait := range waits {
			if err := wait(); !errors.Is(err, share.ErrReleased) {
				t.Errorf("%s after the release says %v", name, err)
			}
		}
	})
}

func TestAllLeasesGetTheErrorOfTheirInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		pool := share.New(share.Config{Logger: logTo(&log)})
		source := informer.From[*book]("books", nil, nil) // nothing to ask
		first, second := take(t, pool, source), take(t, pool, source)
		said := make(chan error, 1)
		go func() { said <- first.WaitSynced(t.Context()) }()
		synctest.Wait()
		stop := run(t, pool)
		synctest.Wait()
		third := take(t, pool, source)
		for _, err := range []error{
			<-said, second.WaitSynced(t.Context()), third.WaitSynced(t.Context()), second.WaitRevision(t.Context(), "1"),
		} {
			if err == nil || !strings.Contains(err.Error(), "no source") {
				t.Errorf("a wait says %v, want why the informer does not run", err)
			}
		}
		for range third.Events(t.Context()) {
			t.Error("an event")
		}
		for _, l := range []*share.Lease[*book]{first, second, third} {
			must(t, l.Release(t.Context()))
		}
		stop()
		if !strings.Contains(log.String(), "informer cannot run") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

func TestLeasesOfOneInformerMustHaveTheSameOptions(t *testing.T) {
	s := newShelf()
	pool := share.New(share.Config{})
	source := s.source("books")
	hear := informer.OnError(func(informer.Incident) {})
	first := take(t, pool, source, informer.NoStreamingLists())
	second := take(t, pool, source, informer.NoStreamingLists())
	for name, opts := range map[string][]informer.Option{"none": nil, "more": {informer.NoStreamingLists(), hear}} {
		_, err := share.Get(pool, source, opts...)
		if !errors.Is(err, share.ErrConflict) || !strings.Contains(err.Error(), "share_test.go") {
			t.Errorf("with other options, %s: %v, want a conflict and who it is with", name, err)
		}
	}
	alone := s.source("alone")
	third := take(t, pool, alone, hear)
	if _, err := share.Get(pool, alone, hear); !errors.Is(err, share.ErrConflict) {
		t.Errorf("with functions that nobody can compare: %v", err)
	}
	if _, err := share.Get(pool, informer.Source[*book]{}); err == nil {
		t.Error("a lease of nothing was given")
	}
	for _, l := range []*share.Lease[*book]{first, second, third} {
		must(t, l.Release(t.Context()))
	}
	if left := pool.Shared(); len(left) != 0 {
		t.Errorf("what was refused is held: %v", left)
	}
}

func TestLeasesListsTheHoldersOfEachSource(t *testing.T) {
	s := newShelf()
	pool := share.New(share.Config{})
	books, maps := s.source("books"), s.source("maps")
	_, file, line, _ := runtime.Caller(0)
	a, errA := share.Get(pool, maps)
	b, errB := share.Get(pool, books)
	c, errC := share.Get(pool, maps)
	must(t, errors.Join(errA, errB, errC))
	at := func(n int) string { return fmt.Sprintf("%s:%d", file, line+n) }
	want := []share.Sharing{{Source: "books", Leases: []string{at(2)}}, {Source: "maps", Leases: []string{at(1), at(3)}}}
	if diff := cmp.Diff(want, pool.Shared()); diff != "" {
		t.Errorf("shared (-want +got):\n%s", diff)
	}
	for _, l := range []*share.Lease[*book]{a, b, c} {
		must(t, l.Release(t.Context()))
	}
}

func TestLeasesOfOneInformerShareAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		for n := range 10 {
			s.put(fmt.Sprint("o", n), n%2)
		}
		pool, _ := running(t, share.Config{})
		source := s.source("books")
		first, second := take(t, pool, source), take(t, pool, source)
		value := func(b *book) int { return b.Value }
		x, err := share.NewIndex1(first, "value", value)
		must(t, err)
		y, err := share.NewIndex(second, "value", func(*book) []int { t.Error("a second function is called"); return nil })
		must(t, err)
		must(t, second.WaitSynced(t.Context()))
		if x != y || y.Len(1) != 5 {
			t.Errorf("the indices are %p and %p, with %d objects, want one with 5", x, y, y.Len(1))
		}
		if _, err := share.NewIndex1(second, "value", func(*book) string { return "" }); !errors.Is(err, share.ErrConflict) {
			t.Errorf("an index by something else: %v", err)
		}
		must(t, first.Release(t.Context()))
		must(t, second.WaitRevision(t.Context(), s.put("o1", 0)))
		if y.Len(1) != 4 {
			t.Errorf("after another lease was released the index has %d objects, want 4", y.Len(1))
		}
		if _, err := share.NewIndex1(first, "value", value); !errors.Is(err, share.ErrReleased) {
			t.Errorf("an index of a lease that was released: %v", err)
		}
		must(t, second.Release(t.Context()))
	})
}

func TestALeaseReadsTheStateOfItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		last := s.put("b", 2)
		pool, _ := running(t, share.Config{})
		l := take(t, pool, s.source("books"))
		must(t, l.WaitRevision(t.Context(), last))
		b, err := l.Until(t.Context(), keyOf("b"), func(b *book, found bool) bool { return found && b.Value == 2 })
		must(t, err)
		all := maps.Collect(l.All())
		if len(all) != 2 || l.Len() != 2 || all[keyOf("b")] != b {
			t.Errorf("all: %v", all)
		}
		names := slices.Collect(maps.Keys(maps.Collect(l.In("default"))))
		if len(names) != 2 || len(maps.Collect(l.In("elsewhere"))) != 0 || len(maps.Collect(l.Select(labels.Nothing()))) != 0 {
			t.Errorf("in the namespace: %v", names)
		}
		synctest.Wait() // the stream is streaming until its first state is published
		now := l.Snapshot()
		if now.Len() != 2 || now.RV() != l.ResourceVersion() || l.Status().State != "watching" {
			t.Errorf("snapshot of %d at %s, lease at %s, %s", now.Len(), now.RV(), l.ResourceVersion(), l.Status().State)
		}
		must(t, l.Release(t.Context()))
	})
}

func TestAPoolCanRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put("a", 1)
		pool, stop := running(t, share.Config{})
		synctest.Wait()
		if err := pool.Run(t.Context()); !errors.Is(err, share.ErrRunning) {
			t.Errorf("a second Run says %v", err)
		}
		l := take(t, pool, s.source("books"))
		calls := 0
		l.Handle(func(context.Context, informer.Event[*book]) error { calls++; return nil })
		must(t, l.WaitSynced(t.Context()))
		synctest.Wait()
		stop()
		if open, _ := s.watches(); open != 0 || l.Len() != 1 {
			t.Errorf("stopped: %d watches, %d objects", open, l.Len())
		}
		s.put("a", 2)
		last := s.put("b", 1)
		stop = run(t, pool)
		must(t, l.WaitRevision(t.Context(), last))
		synctest.Wait()
		if status := l.Status(); calls != 3 || status.Lists != 1 {
			t.Errorf("%d calls and %d lists after going on, want 3 and 1", calls, status.Lists)
		}
		must(t, l.Release(t.Context()))
		stop()
	})
}
