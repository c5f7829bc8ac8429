package record_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/crash/record"
)

// TestWatchesThroughAHoleSeeOnlyTheDifference has two servers. One was away: its watcher does not see the update
// at 11, and sees the deletion where the hole begins. The watcher of the other server sees everything.
func TestWatchesThroughAHoleSeeOnlyTheDifference(t *testing.T) {
	for _, c := range []struct {
		name string
		hole record.Hole
		want string
	}{
		{"it was away", record.Hole{Server: "away", From: 10, To: 13}, ""},
		{"another one was away", record.Hole{Server: "other", From: 10, To: 13}, "away"},
		{"it was away later", record.Hole{Server: "away", From: 13, To: 20}, "away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorldOf(record.NewSeveral())
			w.r.Hole(c.hole)
			away := w.r.Watch("the watcher at the server that was away", w.w.Scope)
			away.Listed(5, nil)
			away.Begin("away")
			away.Event("ADDED", w.version("create", 10))
			last := w.version("update", 10)
			last.ID, last.Pad = w.attempts["create"].ID, w.attempts["create"].Content()
			away.Event("DELETED", last)
			away.Event("ADDED", w.version("second", 13))
			w.w.Begin("other")
			w.w.Event("ADDED", w.version("create", 10))
			w.w.Event("MODIFIED", w.version("update", 11))
			w.w.Event("DELETED", w.version("update", 12))
			w.w.Event("ADDED", w.version("second", 13))
			w.r.Check([]record.List{w.final}, []*record.Watch{w.w, away})
			got := strings.Join(w.r.Violations(0), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the violations are:\n%s\nwant one with %q", got, c.want)
			}
		})
	}
}

// gapped is a world whose server "away" has a hole from 10 to 20. There the object x of the world was updated at 11 and
// deleted at 12; y was created at 13, and written a last time at 16. The watcher comes from 8.
func gapped(t *testing.T) (w *world, away *record.Watch) {
	t.Helper()
	w = newWorldOf(record.NewSeveral())
	w.r.Hole(record.Hole{Server: "away", From: 10, To: 20})
	w.r.Written(w.attempts["killed"], w.version("killed", 16), 13)
	away = w.r.Watch("the watcher at the server that was away", w.w.Scope)
	away.Listed(5, nil)
	away.Begin("away")
	away.Event("ADDED", w.version("create", 10))
	return w, away
}

// TestDeletionInAHoleComesAtItsBeginning also for a watcher that was before it, where another object was written.
func TestDeletionInAHoleComesAtItsBeginning(t *testing.T) {
	w := newWorldOf(record.NewSeveral())
	w.r.Hole(record.Hole{Server: "away", From: 12, To: 20})
	w.write("z", record.Create, 12)
	away := w.r.Watch("the watcher", record.Scope{Resource: resource, Namespace: "a"})
	away.Listed(11, []record.Version{w.version("update", 11)})
	away.Begin("away")
	deleted := w.version("update", 12)
	away.Event("DELETED", deleted)
	if got := w.r.Violations(0); len(got) > 0 {
		t.Errorf("the violations are %q", got)
	}
	away.Event("DELETED", deleted)
	if got := w.r.Violations(0); len(got) != 1 {
		t.Errorf("after a deletion that came twice, the violations are %q", got)
	}
}

// TestDeletionBeforeAHoleMustBeSeen: one that is at the beginning itself is no part of it.
func TestDeletionBeforeAHoleMustBeSeen(t *testing.T) {
	w := newWorldOf(record.NewSeveral())
	w.r.Hole(record.Hole{Server: "away", From: 12, To: 20})
	away := w.r.Watch("the watcher at the server that was away", w.w.Scope)
	away.Listed(5, nil)
	away.Begin("away")
	away.Event("ADDED", w.version("create", 10))
	away.Event("MODIFIED", w.version("update", 11))
	if got := w.play(); len(got) > 0 {
		t.Fatalf("the violations of the other watcher are %q", got)
	}
	away.Event("ADDED", w.version("second", 13))
	w.r.Check([]record.List{w.final}, []*record.Watch{w.w, away})
	if got := strings.Join(w.r.Violations(0), "\n"); !strings.Contains(got, "that was away has 2 objects") {
		t.Errorf("the violations are %q, want that the watcher has an object that is not there", got)
	}
}

// TestWatcherThatLeavesAHoleGoesOnAtAnyServer, where it sees again, or for the first time, what came after the last
// event that the hole has shown.
func TestWatcherThatLeavesAHoleGoesOnAtAnyServer(t *testing.T) {
	for _, c := range []struct {
		name string
		goOn func(w *world, away *record.Watch)
		want string // a part of a violation; empty: there is none
	}{
		{"at the same server, where the deletion comes again", func(w *world, away *record.Watch) {
			away.Begin("away")
			away.Event("DELETED", w.version("create", 10))
			away.Event("ADDED", w.version("killed", 16))
		}, ""},
		{"at another server, where the object still is", func(w *world, away *record.Watch) {
			away.Begin("other")
			away.Event("MODIFIED", w.version("update", 11))
			away.Event("DELETED", w.version("update", 12))
			away.Event("ADDED", w.version("second", 13))
			away.Event("MODIFIED", w.version("killed", 16))
		}, ""},
		{"at another server, which misses a change", func(w *world, away *record.Watch) {
			away.Begin("other")
			away.Event("MODIFIED", w.version("update", 11))
			away.Event("DELETED", w.version("update", 12))
			away.Event("MODIFIED", w.version("killed", 16))
		}, "does not exist"},
		{"in the same stream, where the deletion comes again", func(w *world, away *record.Watch) {
			away.Event("DELETED", w.version("create", 10))
			away.Event("ADDED", w.version("killed", 16))
		}, "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, away := gapped(t)
			x := w.version("create", 10)
			away.Event("DELETED", x)
			c.goOn(w, away)
			got := strings.Join(w.r.Violations(0), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the violations are:\n%s\nwant one with %q", got, c.want)
			}
		})
	}
}

// TestWatcherThatLeavesAHoleInItsMiddleNeedsOnlyWhatComesLater: the object y was created before, and has been written
// after where the watcher is.
func TestWatcherThatLeavesAHoleInItsMiddleNeedsOnlyWhatComesLater(t *testing.T) {
	for name, c := range map[string]struct {
		at, next int64
		want     string // a part of a violation; empty: there is none
	}{
		"it is in the hole":     {14, 16, ""},
		"it is behind the hole": {20, 21, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w, away := gapped(t)
			away.Event("DELETED", w.version("create", 10))
			z := w.write("z", record.Create, c.at)
			away.Event("ADDED", z)
			y := w.version("killed", 16)
			if c.next != y.RV {
				y = w.write("y", record.Patch, c.next)
			}
			away.Begin("other")
			away.Event("MODIFIED", y)
			got := strings.Join(w.r.Violations(0), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the violations are:\n%s\nwant one with %q", got, c.want)
			}
		})
	}
}

// write is an acknowledged write of an object at a resourceVersion.
func (w *world) write(name string, kind record.Kind, rv int64) record.Version {
	a := w.r.Begin(record.Attempt{Key: key(name), Kind: kind, Size: 50})
	v := record.Version{Key: a.Key, RV: rv, UID: "uid-" + name, ID: a.ID, Pad: a.Content()}
	w.r.Written(a, v, rv-1)
	return v
}

// TestGoneIsJustifiedByAHoleOfThatServerOnly: history is removed nowhere else.
func TestGoneIsJustifiedByAHoleOfThatServerOnly(t *testing.T) {
	for _, c := range []struct {
		name, server string
		at           int64
		violations   int
	}{
		{"inside", "away", 10, 0},
		{"at its beginning", "away", 8, 2},
		{"at its end", "away", 12, 2},
		{"at another server", "other", 10, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record.NewSeveral()
			r.Hole(record.Hole{Server: "away", From: 8, To: 12})
			w := r.Watch("the watcher", record.Scope{Resource: resource})
			w.Listed(c.at, nil)
			w.Gap(c.server, "too old resource version: 10 (12)")
			r.Expired(c.server, c.at)
			if got := r.Violations(0); len(got) != c.violations {
				t.Errorf("the violations are %q, want %d", got, c.violations)
			}
		})
	}
}

// TestWriteWithoutAnAnswerMayTakeEffectUntilItIsSettledTwice, because it can be under way in the storage. Checks that are
// repeated settle nothing.
func TestWriteWithoutAnAnswerMayTakeEffectUntilItIsSettledTwice(t *testing.T) {
	for _, c := range []struct{ checks, settled, want int }{{1, 1, 0}, {5, 1, 0}, {2, 2, 1}} {
		w := newWorldOf(record.NewSeveral())
		w.play() // the first check, which settles
		for range c.checks - 1 {
			w.r.Check([]record.List{w.final}, []*record.Watch{w.w})
		}
		for range c.settled - 1 {
			w.r.Settle()
		}
		w.w.Event("MODIFIED", w.version("killed", 20))
		if got := w.r.Violations(0); len(got) != c.want {
			t.Errorf("after %d checks, settled %d times, the violations are %q, want %d", c.checks, c.settled, got, c.want)
		}
	}
}

// TestDeletionWithoutAnAnswerMayTakeEffectUntilItIsSettledTwice, as other writes.
func TestDeletionWithoutAnAnswerMayTakeEffectUntilItIsSettledTwice(t *testing.T) {
	for settled, want := range map[int]int{1: 0, 2: 1} {
		w := newWorldOf(record.NewSeveral())
		w.r.Doubt(w.r.Begin(record.Attempt{Key: key("y"), Kind: record.Delete}))
		w.play() // the first check, which settles
		for range 3 {
			w.r.Check([]record.List{w.final}, []*record.Watch{w.w})
		}
		for range settled - 1 {
			w.r.Settle()
		}
		w.w.Event("DELETED", w.version("second", 20))
		if got := w.r.Violations(0); len(got) != want {
			t.Errorf("settled %d times, the violations are %q, want %d", settled, got, want)
		}
	}
}
