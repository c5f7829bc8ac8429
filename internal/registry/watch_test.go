package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestWatchStarts(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		rv      func(first, last kube.ResourceVersion) string
		match   wire.Match
		initial *bool
		want    []string
	}{
		{"plain", nil, "", nil, []string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"}},
		{"any", rvText("0"), "", nil, []string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"}},
		{
			"streamed list", nil, wire.MatchNotOlderThan, &yes,
			[]string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"},
		},
		{
			"streamed list, not older", func(first, _ kube.ResourceVersion) string { return first.String() },
			wire.MatchNotOlderThan, &yes,
			[]string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"},
		},
		{
			"after the first", func(first, _ kube.ResourceVersion) string { return first.String() }, "", nil,
			[]string{"ADDED default/b", "ADDED default/c"},
		},
		{
			"after the last", func(_, last kube.ResourceVersion) string { return last.String() }, "", nil,
			[]string{"ADDED default/c"},
		},
		{"from now", nil, wire.MatchNotOlderThan, &no, []string{"ADDED default/c"}},
		{"from the cache", rvText("0"), wire.MatchNotOlderThan, &no, []string{"ADDED default/c"}},
		{"from the beginning of time", rvText("1"), "", nil, []string{"ADDED default/a", "ADDED default/b", "ADDED default/c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			cms := s.at("configmaps", "default")
			first := s.create(cms, configMap("a")).ResourceVersion()
			last := s.create(cms, configMap("b")).ResourceVersion()
			w := s.watch(s.at("configmaps"), func(o *wire.ListOptions) {
				o.Match, o.InitialEvents = c.match, c.initial
				if c.rv != nil {
					o.ResourceVersion = c.rv(first, last)
				}
			})
			s.create(cms, configMap("c"))
			if diff := cmp.Diff(c.want, w.take(len(c.want))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func rvText(text string) func(_, _ kube.ResourceVersion) string {
	return func(_, _ kube.ResourceVersion) string { return text }
}

func TestWatchPositionIsZeroUntilTheStateWasSent(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	for i := range 600 {
		s.create(cms, configMap(fmt.Sprintf("c%03d", i)))
	}
	w := s.watch(cms, nil)
	got, batches := 0, 0
	for w.Position() == 0 {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatalf("read the next: %v", err)
		}
		got += len(events)
		batches++
	}
	if got != 601 || batches != 3 {
		t.Errorf("%d events in %d batches, want 601 in 3", got, batches)
	}
	if rv := s.create(s.at("secrets", "default"), `{"metadata":{"name":"s"}}`).ResourceVersion(); w.Position() != rv {
		t.Errorf("position %d of an idle watch, want %d", w.Position(), rv)
	}
}

func TestObjectsThatEnterOrLeaveTheSelectorAreAddedOrDeleted(t *testing.T) {
	s := serve(t)
	cms, at := s.at("configmaps", "default"), s.at("configmaps", "default", "f")
	x1, err := labels.Parse("x=1")
	if err != nil {
		t.Fatalf("parse the selector: %v", err)
	}
	w := s.watch(cms, func(o *wire.ListOptions) { o.Labels = x1 })
	s.create(cms, `{"metadata":{"name":"f","labels":{"x":"1"}}}`)
	left := s.merge(at, `{"metadata":{"labels":{"x":"2"}}}`)
	s.merge(at, `{"data":{"hidden":"yes"}}`)
	s.merge(at, `{"metadata":{"labels":{"x":"1"}}}`)
	s.merge(at, `{"data":{"b":"c"}}`)
	s.delete(at)
	if diff := cmp.Diff([]string{"END", "ADDED default/f"}, w.take(2)); diff != "" {
		t.Error(diff)
	}
	e := w.next()
	if e.Type != kube.Deleted || e.Object.Labels()["x"] != "1" || e.ResourceVersion != left.ResourceVersion() ||
		e.Object.ResourceVersion() != left.ResourceVersion() {
		t.Errorf("when it left: %s", e.Object.JSON())
	}
	if diff := cmp.Diff([]string{"ADDED default/f", "MODIFIED default/f", "DELETED default/f"}, w.take(3)); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyAWatchBehindItsResourcesFloorExpires(t *testing.T) {
	s := serve(t)
	secret := s.create(s.at("secrets", "default"), `{"metadata":{"name":"s"}}`).ResourceVersion()
	s.create(s.at("configmaps", "default"), configMap("a"))
	var floor kube.ResourceVersion
	for i := range 200 { // more than the cache remembers
		floor = s.merge(s.at("configmaps", "default", "a"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5)).ResourceVersion()
	}
	if _, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(floor)}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	at := func(rv kube.ResourceVersion) func(o *wire.ListOptions) {
		return func(o *wire.ListOptions) { o.ResourceVersion = rv.String() }
	}
	_, err := s.Watch(t.Context(), s.at("configmaps"), options(at(secret)))
	want := fmt.Sprintf("410 Expired too old resource version: %d (%d)", secret, floor)
	if diff := cmp.Diff(want, status(err)); diff != "" {
		t.Error(diff)
	}
	w := s.watch(s.at("configmaps"), at(floor))
	s.merge(s.at("configmaps", "default", "a"), `{"data":{"a":"new"}}`)
	if diff := cmp.Diff([]string{"MODIFIED default/a"}, w.take(1)); diff != "" {
		t.Error(diff)
	}
	quiet := s.watch(s.at("secrets"), at(secret))
	s.merge(s.at("secrets", "default", "s"), `{"metadata":{"labels":{"a":"b"}}}`)
	if diff := cmp.Diff([]string{"MODIFIED default/s"}, quiet.take(1)); diff != "" {
		t.Error(diff)
	}
}

func TestWatchReadsFromTheStoreWhatMemoryDoesNotHold(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	before := s.create(cms, configMap("a")).ResourceVersion()
	want := []string{}
	for i := range 500 {
		s.merge(s.at("configmaps", "default", "a"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5))
		want = append(want, "MODIFIED default/a")
	}
	w := s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = before.String() })
	if diff := cmp.Diff(want, w.take(500)); diff != "" {
		t.Error(diff)
	}
	if stats := s.Stats()["configmaps"]; stats.HistoryReads == 0 || stats.Entries > 64 {
		t.Errorf("the test has not left memory: %+v", stats)
	}
}

// TestAWatchAboveTheNewestVersionIsOfAnotherHistory: upstream's waits in silence. Lists, and
// watches that begin with the state, wait as upstream's.
func TestAWatchAboveTheNewestVersionIsOfAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		cms := s.at("configmaps", "default")
		yes, no := true, false
		began := time.Now()
		_, err := s.Watch(t.Context(), cms, options(func(o *wire.ListOptions) {
			o.ResourceVersion, o.Match, o.InitialEvents = "9999999999", wire.MatchNotOlderThan, &yes
		}))
		if _, is := errors.AsType[*kube.TooLargeResourceVersionError](err); !is || time.Since(began) != 3*time.Second {
			t.Errorf("with the state, after %v: %v", time.Since(began), err)
		}
		current := s.create(cms, configMap("a")).ResourceVersion()
		other := s.create(s.at("secrets", "default"),
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`).ResourceVersion()
		for _, initial := range []*bool{nil, &no} {
			for _, ahead := range []kube.ResourceVersion{other + 1, 9999999999} {
				began = time.Now()
				_, err := s.Watch(t.Context(), cms, options(func(o *wire.ListOptions) {
					if o.ResourceVersion, o.InitialEvents = ahead.String(), initial; initial != nil {
						o.Match = wire.MatchNotOlderThan
					}
				}))
				e, is := errors.AsType[*kube.ExpiredError](err)
				if !is || e.Reason != kube.ReasonReplaced || e.Requested != ahead || e.Oldest != other || time.Since(began) != 0 {
					t.Errorf("after %v: %+v, want 410 Replaced for %d at %d", time.Since(began), err, ahead, other)
				}
			}
		}
		// The newest version is known, also where another resource has it.
		w := s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = other.String() })
		older := s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = current.String() })
		s.create(cms, configMap("c"))
		for _, w := range []*watcher{w, older} {
			if diff := cmp.Diff([]string{"ADDED default/c"}, w.take(1)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// lateStore is a store whose feeds deliver nothing while it is held.
type lateStore struct {
	store.Store
	held chan struct{} // has one element while it is held
}

func (l lateStore) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	feed, err := l.Store.Changes(ctx, f)
	return lateFeed{feed, l.held}, err
}

type lateFeed struct {
	store.Changes
	held chan struct{}
}

func (l lateFeed) Next(ctx context.Context) (store.Batch, error) {
	batch, err := l.Changes.Next(ctx)
	select {
	case l.held <- struct{}{}:
		<-l.held
	case <-ctx.Done():
	}
	return batch, err
}

// TestAWatchFromAVersionThatIsNotPublishedYetWaits: it is durable, so that it will be.
func TestAWatchFromAVersionThatIsNotPublishedYetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{}, 1)
		log := openLog(t)
		s, _ := serveWith(t, log, registry.Config{Store: lateStore{log, held}})
		cms := s.at("configmaps", "default")
		before := s.create(cms, configMap("a")).ResourceVersion()
		held <- struct{}{}
		written := make(chan error, 1)
		go func() { // ends when the feed is released, below
			_, err := s.Create(t.Context(), cms, []byte(configMap("b")), metav1.CreateOptions{})
			written <- err
		}()
		synctest.Wait()
		if now, err := log.Progress(t.Context()); err != nil || now != int64(before)+1 {
			t.Fatalf("the store is at %d (%v), want %d", now, err, before+1)
		}
		w := s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = (before + 1).String() })
		_, err := s.Watch(t.Context(), cms, options(func(o *wire.ListOptions) { o.ResourceVersion = (before + 2).String() }))
		if _, is := errors.AsType[*kube.ExpiredError](err); !is {
			t.Errorf("a version that was not given out: %v", err)
		}
		<-held
		if err := <-written; err != nil {
			t.Fatalf("wait until it is written: %v", err)
		}
		s.create(cms, configMap("c"))
		if diff := cmp.Diff([]string{"ADDED default/c"}, w.take(1)); diff != "" {
			t.Error(diff)
		}
	})
}
