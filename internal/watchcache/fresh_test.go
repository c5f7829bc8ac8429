package watchcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/watchcache"
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

func TestAtBehindTheWindowAsksHistoryOnce(t *testing.T) {
	o := &oracle{objects: map[string]*kube.Object{}}
	f := newFixture(t, watchcache.Config{History: &oracleHistory{oracle: o}})
	o.changes = []change{{rv: 50, object: thing{name: "old"}.at(t, 50)}}
	for range 3 {
		s, err := f.cache.At(t.Context(), 60)
		if err != nil || s.RV() != 60 || s.Len() != 1 {
			t.Fatalf("At(60): %v, %v", s, err)
		}
	}
	if got := f.cache.Stats().HistoryReads; got != 1 {
		t.Errorf("history was read %d times, want 1", got)
	}
}

func TestKeptSnapshotOutlivesTheWindow(t *testing.T) {
	f := threeStates(t, watchcache.Config{MaxEntries: 1})
	page := f.cache.Snapshot()
	f.cache.Keep(page)
	for rv := range kube.ResourceVersion(50) {
		f.put(200+rv, thing{name: "c"})
	}
	if gone := f.cache.Stats().Gone; gone <= page.RV() {
		t.Fatalf("the window still reaches back to %d", gone)
	}
	s, err := f.cache.At(t.Context(), page.RV())
	if err != nil {
		t.Fatalf("At(%d): %v", page.RV(), err)
	}
	if diff := cmp.Diff(state(page), state(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.cache.Forget(page.RV() + 1)
	var expired *kube.ExpiredError
	if _, err := f.cache.At(t.Context(), page.RV()); !errors.As(err, &expired) || expired.Kind != kube.ExpiredList {
		t.Errorf("At(%d) after it was forgotten: %v, want an ExpiredError of a list", page.RV(), err)
	}
}

func TestKeptSnapshotsAreFew(t *testing.T) {
	f := threeStates(t, watchcache.Config{MaxEntries: 1})
	for rv := range kube.ResourceVersion(50) {
		f.put(200+rv, thing{name: "c"})
		f.cache.Keep(f.cache.Snapshot())
	}
	kept := 0
	for rv := range kube.ResourceVersion(49) {
		if _, err := f.cache.At(t.Context(), 200+rv); err == nil {
			kept++
		}
	}
	if kept < 3 || kept > 5 {
		t.Errorf("%d old snapshots can be had, want about 4", kept)
	}
}
