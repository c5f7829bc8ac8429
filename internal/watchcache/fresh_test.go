package watchcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestWaitFreshGivesUpAfterThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		for name, wait := range map[string]func(context.Context, kube.ResourceVersion) (*watchcache.Snapshot, error){
			"WaitFresh": f.cache.WaitFresh, "At": f.cache.At,
		} {
			began := time.Now()
			_, err := wait(t.Context(), 101)
			var tooLarge *kube.TooLargeResourceVersionError
			if !errors.As(err, &tooLarge) || tooLarge.Requested != 101 || tooLarge.Current != loadedAt {
				t.Errorf("%s(101) at 100: %v, want a TooLargeResourceVersionError of 101 at 100", name, err)
			}
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("%s waited for %v, want 3s", name, took)
			}
		}
	})
}

func TestWaitFreshReturnsAsSoonAsTheRevisionIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		began := time.Now()
		time.AfterFunc(time.Second, func() { f.put(101, thing{name: "a"}) })
		s, err := f.cache.WaitFresh(t.Context(), 101)
		if err != nil || s.RV() != 101 || s.Len() != 1 {
			t.Fatalf("WaitFresh(101): %v, %v", s, err)
		}
		time.AfterFunc(time.Second, func() { f.clock.Publish(200) }) // a write to another resource
		if s, err = f.cache.WaitFresh(t.Context(), 150); err != nil || s.RV() != 200 {
			t.Fatalf("WaitFresh(150) of an idle resource: %v, %v", s, err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the two waits took %v, want 2s", took)
		}
	})
}

func TestWaitFreshReturnsTheCauseOfTheContext(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	why := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := f.cache.WaitFresh(ctx, 101); !errors.Is(err, why) {
		t.Errorf("WaitFresh with a cancelled context: %v, want its cause", err)
	}
}

// threeStates is a cache in which a was created at 101 and changed at 103, and b
// was created at 102 and deleted at 104.
func threeStates(t *testing.T, cfg watchcache.Config) *fixture {
	t.Helper()
	f := newFixture(t, cfg)
	f.put(101, thing{name: "a", app: "1"})
	f.put(102, thing{name: "b", app: "2"})
	f.put(103, thing{name: "a", app: "3"})
	f.remove(104, thing{name: "b"})
	f.clock.Publish(110)
	return f
}

func state(s *watchcache.Snapshot) map[string]string {
	out := map[string]string{}
	for o := range s.Scan("", watchcache.Selection{}) {
		out[o.Key().String()] = o.Labels()["app"]
	}
	return out
}

func TestAtIsExact(t *testing.T) {
	f := threeStates(t, watchcache.Config{})
	for rv, want := range map[kube.ResourceVersion]map[string]string{
		100: {},
		101: {"a": "1"},
		102: {"a": "1", "b": "2"},
		103: {"a": "3", "b": "2"},
		104: {"a": "3"},
		107: {"a": "3"},
		110: {"a": "3"},
	} {
		for range 2 { // the second time from what is kept
			s, err := f.cache.At(t.Context(), rv)
			if err != nil {
				t.Fatalf("At(%d): %v", rv, err)
			}
			if s.RV() != rv {
				t.Errorf("At(%d).RV() = %d", rv, s.RV())
			}
			if diff := cmp.Diff(want, state(s)); diff != "" {
				t.Errorf("At(%d) (-want +got):\n%s", rv, diff)
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "3"}, state(f.cache.Snapshot())); diff != "" {
		t.Errorf("the newest state was changed (-want +got):\n%s", diff)
	}
}

func TestAtServesTheWindowAndHistoryOlderStates(t *testing.T) {
	o := &oracle{objects: map[string]*wire.Object{}}
	f := newFixture(t, watchcache.Config{History: &oracleHistory{oracle: o}, MaxEntries: 4})
	for rv := kube.ResourceVersion(101); rv <= 150; rv++ {
		f.put(rv, thing{name: "a"})
	}
	gone := f.cache.Stats().Gone
	if s, err := f.cache.At(t.Context(), gone); err != nil || s.RV() != gone {
		t.Errorf("At(%d), where the window begins: %v, %v", gone, s, err)
	}
	if s, err := f.cache.At(t.Context(), gone-1); !errors.Is(err, watchcache.ErrBehind) {
		t.Errorf("At(%d), behind the window: %v, %v", gone-1, s, err)
	}
	o.floor.Store(149)
	var expired *kube.ExpiredError
	for rv := kube.ResourceVersion(100); rv < 149; rv++ {
		if _, err := f.cache.At(t.Context(), rv); !errors.As(err, &expired) || expired.Kind != kube.ExpiredList ||
			expired.Requested != rv {
			t.Errorf("At(%d) below the floor: %v", rv, err)
		}
		if _, err := f.cache.CursorAfter(t.Context(), rv, watchcache.Selection{}); !errors.As(err, &expired) ||
			expired.Kind != kube.ExpiredWatch {
			t.Errorf("CursorAfter(%d) below the floor: %v", rv, err)
		}
		if _, err := f.cache.Since(t.Context(), rv, f.cache.Snapshot(), watchcache.Selection{}); !errors.As(err, &expired) {
			t.Errorf("Since(%d) below the floor: %v", rv, err)
		}
	}
	if _, err := f.cache.At(t.Context(), 149); err != nil {
		t.Errorf("At the floor: %v", err)
	}
}

func TestExactSnapshotIsSharedUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeStates(t, watchcache.Config{})
		used := func() *watchcache.Snapshot {
			s, err := f.cache.At(t.Context(), 102)
			if err != nil {
				t.Fatalf("read the cache: %v", err)
			}
			return s
		}
		first := used()
		for range 5 {
			<-time.After(7 * time.Second)
			if used() != first {
				t.Error("a snapshot that is in use was made again")
			}
		}
		if kept := f.cache.Stats().Kept; kept != 1 {
			t.Errorf("%d snapshots are kept, want 1", kept)
		}
		<-time.After(20 * time.Second)
		if kept := f.cache.Stats().Kept; kept != 0 {
			t.Errorf("%d unused snapshots are kept", kept)
		}
	})
}

func TestNoSnapshotIsKeptBehindTheWindow(t *testing.T) {
	f := threeStates(t, watchcache.Config{MaxEntries: 1})
	page := f.cache.Snapshot()
	f.cache.Keep(page)
	for rv := range kube.ResourceVersion(50) {
		f.put(200+rv, thing{name: "c"})
	}
	if gone := f.cache.Stats().Gone; gone <= page.RV() {
		t.Fatalf("the window still reaches back to %d", gone)
	}
	if kept := f.cache.Stats().Kept; kept != 0 {
		t.Errorf("%d snapshots are kept", kept)
	}
	f.cache.Keep(page) // its reader was slower than the window
	if kept := f.cache.Stats().Kept; kept != 0 {
		t.Errorf("%d snapshots are kept", kept)
	}
}

func TestNumberOfKeptSnapshotsIsBounded(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	for rv := range kube.ResourceVersion(50) {
		f.put(200+rv, thing{name: "c"})
		f.cache.Keep(f.cache.Snapshot())
	}
	if kept := f.cache.Stats().Kept; kept != 4 {
		t.Errorf("%d snapshots are kept, want 4", kept)
	}
}
