package watchcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/watchcache"
)

// crowd is the watchers of a resource, by how they are sent what changes.
type crowd struct {
	prompt  int // at once
	late    int // each batch takes 80 ms
	stalled int // not at all, after the first batch
}

// watch opens the watchers at a resourceVersion. They end with the test.
func (c crowd) watch(f *fixture) {
	f.tb.Helper()
	follow := func(each func() bool) {
		cursor := f.cursor(loadedAt, watchcache.Selection{})
		go func() {
			for {
				if _, err := cursor.Next(f.tb.Context()); err != nil || !each() {
					return
				}
			}
		}()
	}
	for range c.prompt {
		follow(func() bool { return true })
	}
	for range c.late {
		follow(func() bool {
			select {
			case <-time.After(80 * time.Millisecond):
				return true
			case <-f.tb.Context().Done():
				return false
			}
		})
	}
	for range c.stalled {
		follow(func() bool { return false })
	}
}

// writes writes so many times, without more of a pause than Pace makes and one between writes, and returns how long all
// and the longest call of Pace took.
func (f *fixture) writes(ctx context.Context, n int, pause time.Duration) (all, longest time.Duration) {
	f.tb.Helper()
	for range n {
		f.put(f.clock.Published()+1, thing{name: "x"})
		began := time.Now()
		f.cache.Pace(ctx)
		took := time.Since(began)
		all, longest = all+took, max(longest, took)
		<-time.After(pause)
	}
	return all, longest
}

func TestAWriterWaitsForMostWatchersAndNotForSome(t *testing.T) {
	for name, c := range map[string]struct {
		crowd crowd

		waits bool
	}{
		"nobody watches":                  {crowd{}, false},
		"all follow":                      {crowd{prompt: 20}, false},
		"all are late":                    {crowd{late: 10}, true},
		"one is late":                     {crowd{prompt: 19, late: 1}, false},
		"half are late":                   {crowd{prompt: 8, late: 8}, false},
		"most are late":                   {crowd{prompt: 8, late: 12}, true},
		"few are late":                    {crowd{late: 7}, false},
		"all stall":                       {crowd{stalled: 20}, false},
		"most stall, the others follow":   {crowd{stalled: 20, prompt: 8}, false},
		"most stall, the others are late": {crowd{stalled: 15, late: 10}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, watchcache.Config{})
				c.crowd.watch(f)
				synctest.Wait()
				f.writes(t.Context(), 100, 4*time.Millisecond) // until those that stall are known
				paced := f.cache.Stats().Paced
				all, longest := f.writes(t.Context(), 100, 4*time.Millisecond)
				if waits := all > 0; waits != c.waits {
					t.Errorf("100 writes waited for %v, want waiting: %t", all, c.waits)
				}
				if longest > 5*time.Millisecond {
					t.Errorf("a write waited for %v", longest)
				}
				if counted := f.cache.Stats().Paced > paced; counted != c.waits {
					t.Errorf("writes that waited are counted: %t", counted)
				}
			})
		})
	}
}

// TestAWriterDoesNotWaitForWatchersThatAreLost: they are sent less than is written, whatever it waits.
func TestAWriterDoesNotWaitForWatchersThatAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{MaxBytes: 1 << 30})
		crowd{late: 10}.watch(f) // batches of one object
		large := thing{name: "x", size: 700 << 10}
		waited := func() (all time.Duration) {
			for range 100 {
				f.put(f.clock.Published()+1, large)
				began := time.Now()
				f.cache.Pace(t.Context())
				all += time.Since(began)
				<-time.After(20 * time.Millisecond)
			}
			return all
		}
		if first := waited(); first == 0 {
			t.Error("no write waited while the watchers fell behind")
		}
		if then := waited(); then != 0 {
			t.Errorf("writes waited for %v for watchers that are more than a second late", then)
		}
	})
}

// TestAWatcherThatWaitedForLongIsNotLate: its position is old, and it has everything.
func TestAWatcherThatWaitedForLongIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		crowd{prompt: 10}.watch(f)
		for range 20 {
			if all, _ := f.writes(t.Context(), 3, 0); all != 0 {
				t.Errorf("writes waited for %v after a minute without any", all)
			}
			<-time.After(time.Minute)
		}
	})
}

func TestAWriterThatLeavesDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		crowd{late: 10}.watch(f)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the client left"))
		if all, _ := f.writes(ctx, 100, 4*time.Millisecond); all != 0 {
			t.Errorf("writes waited for %v", all)
		}
	})
}

// TestCursorsThatCloseAreNotLookedAt closes them in another order than they were opened.
func TestCursorsThatCloseAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		var open []*watchcache.Cursor
		for range 30 {
			open = append(open, f.cursor(loadedAt, watchcache.Selection{}))
		}
		for i := range 10 {
			open[3*i].Close()
			open[3*i].Close() // again does nothing
			f.writes(t.Context(), 2, time.Millisecond)
		}
		crowd{late: 25}.watch(f) // those that are open and read nothing do not count
		f.writes(t.Context(), 100, 4*time.Millisecond)
		for _, cursor := range open {
			cursor.Close()
		}
		if all, _ := f.writes(t.Context(), 100, 4*time.Millisecond); all == 0 {
			t.Error("no write waited for the watchers that are left")
		}
	})
}
