package record_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/crash/record"
)

// TestWatchesThroughAHoleSeeOnlyTheDifference has two servers. One was away: its watcher does not see the update
// at 11, and sees the deletion at another resourceVersion. The watcher of the other server sees everything.
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
			last := w.version("update", 11)
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

// TestWriteWithoutAnAnswerMayTakeEffectUntilTheCheckAfterTheNextOne, because it can be under way in the storage.
func TestWriteWithoutAnAnswerMayTakeEffectUntilTheCheckAfterTheNextOne(t *testing.T) {
	for checks, want := range map[int]int{1: 0, 2: 1} {
		w := newWorldOf(record.NewSeveral())
		w.play() // the first check
		for range checks - 1 {
			w.r.Check([]record.List{w.final}, []*record.Watch{w.w})
		}
		w.w.Event("MODIFIED", w.version("killed", 20))
		if got := w.r.Violations(0); len(got) != want {
			t.Errorf("after %d checks the violations are %q, want %d", checks, got, want)
		}
	}
}
