package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestCursorShowsSelectorTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		x := func(app string) thing { return thing{namespace: "ns", name: "x", app: app} }
		f.put(122, x("other"))
		f.put(123, x("1"))
		f.put(124, x("2"))
		f.put(125, x("3"))
		f.put(126, x("1"))
		f.put(127, x("1"))
		f.remove(128, x("1"))
		f.put(129, x("2"))
		f.remove(130, x("2"))

		events := next(t, f.cursor(100, appIs("1")))
		want := []string{"ADDED 123 ns/x", "DELETED 124 ns/x", "ADDED 126 ns/x", "MODIFIED 127 ns/x", "DELETED 128 ns/x"}
		if diff := cmp.Diff(want, brief(events)); diff != "" {
			t.Fatalf("events (-want +got):\n%s", diff)
		}
		for _, e := range events {
			if got := e.Object.Labels()["app"]; got != "1" {
				t.Errorf("%s %d shows app=%s, which the watcher must not see", e.Type, e.ResourceVersion, got)
			}
			if got := e.Object.ResourceVersion(); got != e.ResourceVersion {
				t.Errorf("%s %d carries an object at %d", e.Type, e.ResourceVersion, got)
			}
		}
	})
}

func TestObjectsAreSharedByAllCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{}, thing{name: "x", app: "1"}.at(t, 1))
		f.put(101, thing{name: "x", app: "2"})
		first, second := next(t, f.cursor(100, appIs("1"))), next(t, f.cursor(100, appIs("1")))
		if len(first) != 1 || len(second) != 1 || first[0].Object != second[0].Object {
			t.Errorf("two watchers got events of their own: %v and %v", brief(first), brief(second))
		}
	})
}

func TestNextWaitsAndThenReturnsWhatWasAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		cursor := f.cursor(100, watchcache.Selection{})
		got := make(chan []string)
		go func() {
			events, err := cursor.Next(t.Context())
			got <- append(brief(events), fmt.Sprint(err))
		}()
		synctest.Wait()
		f.cache.Append( // a batch is seen at once
			watchcache.NewEntry(101, thing{name: "x"}.at(t, 101), nil),
			watchcache.NewEntry(102, thing{name: "y"}.at(t, 102), nil))
		if diff := cmp.Diff([]string{"ADDED 101 x", "ADDED 102 y", "<nil>"}, <-got); diff != "" {
			t.Errorf("Next (-want +got):\n%s", diff)
		}
	})
}

func TestAppendWakesEveryWaitingCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		var seen [100]int
		var wg sync.WaitGroup
		for i := range seen {
			cursor := f.cursor(100, watchcache.Selection{})
			wg.Go(func() {
				for cursor.Position() < 120 {
					events, err := cursor.Next(t.Context())
					if err != nil {
						t.Errorf("read the cursor: %v", err)
						return
					}
					seen[i] += len(events)
				}
			})
		}
		for rv := kube.ResourceVersion(101); rv <= 120; rv++ {
			synctest.Wait() // all wait
			f.put(rv, thing{name: "x"})
		}
		wg.Wait()
		for i, n := range seen {
			if n != 20 {
				t.Errorf("cursor %d saw %d events, want 20", i, n)
			}
		}
	})
}

func TestCanceledCursorDoesNotConsumeTheWakeUpOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			f := newFixture(t, watchcache.Config{})
			leaving, staying := f.cursor(100, watchcache.Selection{}), f.cursor(100, watchcache.Selection{})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = leaving.Next(ctx) })
			synctest.Wait() // it alone waits, and will take the token or leave
			wg.Go(func() {
				if events, err := staying.Next(t.Context()); err != nil || len(events) != 1 {
					t.Errorf("Next: %v, %v", brief(events), err)
				}
			})
			synctest.Wait()
			go cancel()
			f.put(101, thing{name: "x"})
			wg.Wait()
		}
	})
}

func TestBatchesAreBoundedByEventsAndBytes(t *testing.T) {
	for _, test := range []struct {
		name  string
		size  int // of an object's payload
		count int
		want  []int
	}{
		{"256 events", 1, 600, []int{256, 256, 88}},
		{"1 MiB of frames", 400_000, 5, []int{2, 2, 1}},
		{"a larger event alone", 1_500_000, 2, []int{1, 1}},
	} {
		for _, where := range []string{"memory", "history"} {
			t.Run(test.name+" from "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &oracle{objects: map[string]*wire.Object{}}
					f := newFixture(t, watchcache.Config{History: &oracleHistory{oracle: o}, MaxBytes: 1 << 30})
					for i := range test.count {
						rv := kube.ResourceVersion(101 + i)
						object := thing{name: fmt.Sprintf("o%d", i), size: test.size}.at(t, rv)
						if where == "memory" {
							f.cache.Append(watchcache.NewEntry(rv, object, nil))
						}
						o.changes = append(o.changes, change{rv: rv, object: object})
					}
					if where == "history" {
						f.cache.Load(nil, kube.ResourceVersion(100+test.count))
					}
					cursor, total, last := f.cursor(100, watchcache.Selection{}), 0, kube.ResourceVersion(100)
					var sizes []int
					for total < test.count {
						events := next(t, cursor)
						for _, e := range events {
							if e.ResourceVersion != last+1 {
								t.Fatalf("event %d after %d", e.ResourceVersion, last)
							}
							last = e.ResourceVersion
						}
						sizes = append(sizes, len(events))
						total += len(events)
					}
					if where == "memory" {
						if diff := cmp.Diff(test.want, sizes); diff != "" {
							t.Errorf("batches (-want +got):\n%s", diff)
						}
					} else if most := slices.Max(sizes); most > test.want[0] {
						t.Errorf("the largest batch has %d events, want at most %d", most, test.want[0])
					}
				})
			})
		}
	}
}

func TestCursorFromAFutureVersionReturnsOnlyLaterEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		cursor := f.cursor(150, watchcache.Selection{})
		f.put(149, thing{name: "x"})
		f.put(150, thing{name: "x"})
		if events := next(t, cursor); events != nil {
			t.Errorf("events up to the requested one: %v", brief(events))
		}
		f.put(151, thing{name: "x"})
		if diff := cmp.Diff([]string{"MODIFIED 151 x"}, brief(next(t, cursor))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestCursorBehindTheWindowReadsHistoryAndJoinsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{objects: map[string]*wire.Object{}}
		f := newFixture(t, watchcache.Config{History: &oracleHistory{oracle: o}, MaxEntries: 4})
		r := random(1)
		for rv := kube.ResourceVersion(101); rv <= 160; rv++ {
			f.cache.Append(o.write(t, r, rv).entry())
		}
		if gone := f.cache.Stats().Gone; gone != 156 {
			t.Fatalf("the window begins after %d, want 156", gone)
		}
		cursor, count := f.cursor(100, watchcache.Selection{}), 0
		for events := next(t, cursor); events != nil; events = next(t, cursor) {
			for _, e := range events {
				count++
				if e.ResourceVersion != kube.ResourceVersion(100+count) {
					t.Fatalf("event %d is %d", count, e.ResourceVersion)
				}
			}
		}
		if count != 60 {
			t.Errorf("%d events, want 60", count)
		}
	})
}

func TestCursorBehindHistoryIsExpiredFromTheStart(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	_, err := f.cache.CursorAfter(t.Context(), 99, watchcache.Selection{})
	var expired *kube.ExpiredError
	if !errors.As(err, &expired) || expired.Kind != kube.ExpiredWatch || expired.Requested != 99 || expired.Oldest != 100 {
		t.Errorf("CursorAfter(99) = %v, want an ExpiredError of a watch, oldest 100", err)
	}
	if got := f.cache.Stats().Cursors; got != 0 {
		t.Errorf("%d cursors are open", got)
	}
}

// scriptedHistory returns its answers one after the other, the last one repeatedly.
type scriptedHistory struct{ answers []answer }

type answer struct {
	entries []*watchcache.Entry
	through kube.ResourceVersion
	err     error
}

func (h *scriptedHistory) Entries(context.Context, watchcache.Range) ([]*watchcache.Entry, kube.ResourceVersion, error) {
	a := h.answers[0]
	if len(h.answers) > 1 {
		h.answers = h.answers[1:]
	}
	return a.entries, a.through, a.err
}

func (h *scriptedHistory) Check(context.Context, kube.ResourceVersion, kube.ExpiredKind) error {
	return nil
}

func TestErrorsOfHistoryFollowTheEntriesBefore(t *testing.T) {
	entry := func(rv kube.ResourceVersion) *watchcache.Entry {
		return watchcache.NewEntry(rv, thing{name: "x"}.at(t, rv), nil)
	}
	gone := &kube.ExpiredError{Requested: 62, Oldest: 70, Kind: kube.ExpiredWatch}
	broken := errors.New("the disk is on fire")
	for _, test := range []struct {
		name    string
		answers []answer
		want    []string
		err     string
	}{
		{
			"expired in the middle",
			[]answer{{entries: []*watchcache.Entry{entry(61)}, through: 62, err: gone}, {err: gone}},
			[]string{"ADDED 61 x"},
			gone.Error(),
		},
		{"expired at once", []answer{{err: gone}}, nil, gone.Error()},
		{
			"a broken disk",
			[]answer{{entries: []*watchcache.Entry{entry(61)}, through: 61}, {err: broken}},
			[]string{"ADDED 61 x"},
			broken.Error(),
		},
		{"no progress", []answer{{through: 50}}, nil, "history between 50 and 100 makes no progress"},
		{
			"out of order",
			[]answer{{entries: []*watchcache.Entry{entry(62), entry(61)}, through: 70}},
			nil,
			"history after 50 is out of order: entry 61 after 62",
		},
		{
			"an entry above what it promises",
			[]answer{{entries: []*watchcache.Entry{entry(61), entry(64)}, through: 62}, {err: gone}},
			[]string{"ADDED 61 x"},
			gone.Error(),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, watchcache.Config{History: &scriptedHistory{answers: test.answers}})
				cursor := f.cursor(50, watchcache.Selection{})
				var got []string
				events, err := cursor.Next(t.Context())
				for ; err == nil; events, err = cursor.Next(t.Context()) {
					got = append(got, brief(events)...)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if err.Error() != test.err {
					t.Errorf("Next ends with %q, want %q", err, test.err)
				}
				if _, again := cursor.Next(t.Context()); !errors.Is(again, err) {
					t.Errorf("after its end Next returns %v", again)
				}
			})
		})
	}
}

// An update without the object before could hide that an object left the selection.
func TestSelectorsDoNotGoWithoutThePreviousObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		update := watchcache.NewEntry(61, thing{name: "x", app: "db"}.at(t, 61), nil)
		update.Replaces = true
		answers := []answer{{entries: []*watchcache.Entry{update}, through: 100}}
		f := newFixture(t, watchcache.Config{History: &scriptedHistory{answers: answers}})
		const want = "history after 50: entry 61 has no previous object"
		if _, err := f.cursor(50, appIs("web")).Next(t.Context()); err == nil || err.Error() != want {
			t.Errorf("Next gives %v, want %q", err, want)
		}
		if _, err := f.cache.Since(t.Context(), 50, f.cache.Snapshot(), appIs("web")); err == nil || err.Error() != want {
			t.Errorf("Since gives %v, want %q", err, want)
		}
		events := next(t, f.cursor(50, watchcache.Selection{Name: "x"}))
		if diff := cmp.Diff([]string{"MODIFIED 61 x"}, brief(events)); diff != "" {
			t.Errorf("a selection by key (-want +got):\n%s", diff)
		}
	})
}

func TestEmptyAnswersOfHistoryAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{
			History: &scriptedHistory{answers: []answer{{through: 70}, {through: 99}, {through: 1000}}},
		})
		cursor := f.cursor(50, watchcache.Selection{})
		f.put(101, thing{name: "x"})
		if diff := cmp.Diff([]string{"ADDED 101 x"}, brief(next(t, cursor))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestIdleWatchSurvivesCompactionOfAQuietResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		f.put(101, thing{name: "x"})
		f.clock.Publish(9000)
		f.cache.Forget(8000)
		cursor := f.cursor(101, watchcache.Selection{}) // an old rv, but nothing was lost since
		f.put(9001, thing{name: "x"})
		if diff := cmp.Diff([]string{"MODIFIED 9001 x"}, brief(next(t, cursor))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if s, err := f.cache.At(t.Context(), 5000); err != nil || s.Len() != 1 {
			t.Errorf("At(5000): %v, %v", s, err)
		}
		var expired *kube.ExpiredError
		if _, err := f.cache.CursorAfter(t.Context(), 100, watchcache.Selection{}); !errors.As(err, &expired) {
			t.Errorf("CursorAfter(100), which needs the change at 101: %v, want an ExpiredError", err)
		}
	})
}

func TestPositionPassesEntriesThatDoNotMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		cursor := f.cursor(100, appIs("mine"))
		at := func(want kube.ResourceVersion, when string) {
			t.Helper()
			if got := cursor.Position(); got != want {
				t.Errorf("Position() %s = %d, want %d", when, got, want)
			}
		}
		at(100, "at first")
		f.put(101, thing{name: "x", app: "other"})
		at(101, "after another's change")
		f.clock.Publish(150)
		at(150, "after a change of another resource")
		f.put(151, thing{name: "x", app: "other"})
		f.put(152, thing{name: "y", app: "mine"})
		f.put(153, thing{name: "x", app: "other"})
		at(151, "before an event that waits to be read")
		if got := brief(next(t, cursor)); !slices.Equal(got, []string{"ADDED 152 y"}) {
			t.Errorf("events = %v", got)
		}
		at(153, "when everything was read")
	})
}

func TestPositionOfACursorBehindTheWindowStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{objects: map[string]*wire.Object{}}
		f := newFixture(t, watchcache.Config{History: &oracleHistory{oracle: o}, MaxEntries: 1})
		cursor := f.cursor(100, appIs("nobody"))
		for rv := kube.ResourceVersion(101); rv <= 110; rv++ {
			f.cache.Append(o.write(t, random(uint64(rv)), rv).entry())
		}
		if got := cursor.Position(); got != 100 {
			t.Errorf("Position() = %d before History was read, want 100", got)
		}
		if events := next(t, cursor); events != nil {
			t.Errorf("events: %v", brief(events))
		}
		if got := cursor.Position(); got != 110 {
			t.Errorf("Position() = %d after Next, want 110", got)
		}
	})
}

func TestContextEndsNextButNotTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		cursor := f.cursor(100, watchcache.Selection{})
		why := errors.New("time for a bookmark")
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(why)
		if _, err := cursor.Next(ctx); !errors.Is(err, why) {
			t.Errorf("Next: %v, want the cause", err)
		}
		f.put(101, thing{name: "x"})
		if got := brief(next(t, cursor)); !slices.Equal(got, []string{"ADDED 101 x"}) {
			t.Errorf("events = %v", got)
		}
	})
}

func TestClosedCursorIsNotCounted(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	cursor := f.cursor(100, watchcache.Selection{})
	if got := f.cache.Stats().Cursors; got != 1 {
		t.Errorf("%d cursors, want 1", got)
	}
	cursor.Close()
	cursor.Close()
	if got := f.cache.Stats().Cursors; got != 0 {
		t.Errorf("%d cursors after Close, want 0", got)
	}
	if _, err := cursor.Next(t.Context()); !errors.Is(err, watchcache.ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
}

func TestWaitingCursorPinsNoObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		f.put(101, thing{name: "x"})
		cursor := f.cursor(100, watchcache.Selection{})
		events := next(t, cursor)
		if len(events) != 1 {
			t.Fatalf("events = %v", brief(events))
		}
		next(t, cursor) // waits
		if events[0].Object != nil {
			t.Error("the cursor keeps what it returned before")
		}
	})
}
