package watchcache_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// expire appends deletions of many objects at one revision, as the end of a lease does.
func (f *fixture) expire(rv kube.ResourceVersion, all ...thing) {
	f.tb.Helper()
	var entries []*watchcache.Entry
	for o := range f.cache.Snapshot().Scan("", watchcache.Selection{}) {
		entries = append(entries, watchcache.NewSharedDeletion(rv, o))
	}
	for _, o := range all {
		entries = append(entries, watchcache.NewEntry(rv, o.at(f.tb, rv), nil))
	}
	f.cache.Append(entries...)
	f.clock.Publish(rv)
}

func TestABatchHasAllEventsOfARevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		f := newFixture(t, watchcache.Config{})
		cursor := f.cursor(loadedAt, watchcache.Selection{})
		rv := kube.ResourceVersion(loadedAt)
		for i := range many {
			rv++
			f.put(rv, thing{name: fmt.Sprint("o", i)})
		}
		f.expire(rv+1, thing{name: "after"})
		f.put(rv+2, thing{name: "last"})
		want := []int{256, 256, 256, 232 + many + 1, 1} // what comes before has room in the same batch
		var got []int
		for {
			events := next(t, cursor)
			if events == nil {
				break
			}
			got = append(got, len(events))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sizes of batches (-want +got):\n%s", diff)
		}
		if got := cursor.Position(); got != rv+2 {
			t.Errorf("Position() = %d at the end, want %d", got, rv+2)
		}
	})
}

func TestABatchHasAllEventsOfARevisionHoweverLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		cursor := f.cursor(loadedAt, watchcache.Selection{})
		f.put(101, thing{name: "first", size: 600 << 10})
		f.expire(102, thing{name: "a", size: 600 << 10}, thing{name: "b", size: 600 << 10}, thing{name: "c", size: 600 << 10})
		for _, want := range [][]string{{"ADDED 101 first"}, {"DELETED 101 first", "ADDED 102 a", "ADDED 102 b", "ADDED 102 c"}} {
			if diff := cmp.Diff(want, brief(next(t, cursor))); diff != "" {
				t.Errorf("a batch (-want +got):\n%s", diff)
			}
		}
	})
}

func TestAClientThatIsCutOffWithinARevisionMissesNoDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{},
			thing{name: "a"}.at(t, 50), thing{name: "b"}.at(t, 100), thing{name: "c"}.at(t, 70))
		f.put(101, thing{name: "d"})
		f.expire(102)
		want := []string{"ADDED 101 d", "DELETED 101 a", "DELETED 101 b", "DELETED 101 c", "DELETED 101 d"}
		first := next(t, f.cursor(loadedAt, watchcache.Selection{}))
		if diff := cmp.Diff(want, brief(first)); diff != "" {
			t.Fatalf("events (-want +got):\n%s", diff)
		}
		seen := first[2].ResourceVersion // and then the connection ended
		if diff := cmp.Diff(want[1:], brief(next(t, f.cursor(seen, watchcache.Selection{})))); diff != "" {
			t.Errorf("events after %d (-want +got):\n%s", seen, diff)
		}
	})
}

// over appends a difference over the hole from 100 to 110.
func (f *fixture) over() {
	f.tb.Helper()
	gone, _ := f.cache.Snapshot().Lookup("gone")
	f.cache.AppendHole(watchcache.Hole{From: 100, To: 110},
		watchcache.NewSharedDeletion(101, gone),
		watchcache.NewEntry(104, thing{name: "new"}.at(f.tb, 104), nil),
		watchcache.NewEntry(107, thing{name: "was"}.at(f.tb, 107), nil))
	f.clock.Publish(110)
}

func TestADifferenceIsNoPlaceToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{}, thing{name: "gone"}.at(t, 50), thing{name: "was"}.at(t, 60))
		open := f.cursor(loadedAt, watchcache.Selection{})
		f.over()
		want := []string{"DELETED 100 gone", "ADDED 104 new", "MODIFIED 107 was"}
		for name, cursor := range map[string]*watchcache.Cursor{
			"that was open": open, "from the beginning": f.cursor(100, watchcache.Selection{}),
		} {
			if got := cursor.Position(); got != 100 {
				t.Errorf("a cursor %s is at %d, want 100", name, got)
			}
			if diff := cmp.Diff(want, brief(next(t, cursor))); diff != "" {
				t.Errorf("a cursor %s (-want +got):\n%s", name, diff)
			}
			if got := cursor.Position(); got != 110 {
				t.Errorf("a cursor %s is at %d, want 110", name, got)
			}
		}
		for rv := kube.ResourceVersion(100); rv <= 110; rv++ {
			_, list := f.cache.At(t.Context(), rv)
			cursor, watch := f.cache.CursorAfter(t.Context(), rv, watchcache.Selection{})
			_, delta := f.cache.Since(t.Context(), rv, f.cache.Snapshot(), watchcache.Selection{})
			if watch == nil {
				cursor.Close()
			}
			for name, err := range map[string]error{"list": list, "watch": watch, "delta": delta} {
				if inside := rv > 100 && rv < 110; inside != unseen(err, rv) || !inside && err != nil {
					t.Errorf("%s at %d: %v", name, rv, err)
				}
			}
		}
		if s, err := f.cache.At(t.Context(), 100); err != nil {
			t.Errorf("list at 100: %v", err)
		} else if diff := cmp.Diff([]string{"gone", "was"}, keys(s, "", watchcache.Selection{})); diff != "" {
			t.Errorf("the state at 100 (-want +got):\n%s", diff)
		}
		if s := f.cache.Snapshot(); s.RV() != 110 {
			t.Errorf("the newest state is at %d", s.RV())
		}
	})
}

func unseen(err error, requested kube.ResourceVersion) bool {
	e, is := errors.AsType[*kube.ExpiredError](err)
	return is && e.Reason == kube.ReasonUnseen && e.Requested == requested && e.Oldest == 110
}

func TestAListDuringADifferenceIsAfterIt(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, thing{name: "gone"}.at(t, 50), thing{name: "was"}.at(t, 60))
	gone, _ := f.cache.Snapshot().Lookup("gone")
	f.cache.AppendHole(watchcache.Hole{From: 100, To: 110}, watchcache.NewSharedDeletion(101, gone))
	if s := f.cache.Snapshot(); s.RV() != 110 { // although the clock has not moved
		t.Errorf("the state is at %d, where nobody can go on", s.RV())
	}
}

func TestAWatchThatWaitsInsideAHoleExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, over := range map[string]func(f *fixture){
			"with a difference": (*fixture).over,
			"without one": func(f *fixture) {
				f.cache.AppendHole(watchcache.Hole{From: 100, To: 110})
				f.clock.Publish(110)
			},
		} {
			f := newFixture(t, watchcache.Config{}, thing{name: "gone"}.at(t, 50), thing{name: "was"}.at(t, 60))
			inside := f.cursor(105, appIs("nobody")) // another server has told it of 105
			later := f.cursor(115, watchcache.Selection{})
			failed := make(chan error, 1)
			go func() { // ends with the hole
				_, err := inside.Next(t.Context())
				failed <- err
			}()
			synctest.Wait()
			over(f)
			if err := <-failed; !unseen(err, 105) {
				t.Errorf("%s: %v", name, err)
			}
			if got := inside.Position(); got != 105 {
				t.Errorf("%s: it is at %d", name, got)
			}
			if events := next(t, later); events != nil || later.Position() != 115 {
				t.Errorf("%s: a watch from after the hole gets %v, at %d", name, brief(events), later.Position())
			}
		}
	})
}
