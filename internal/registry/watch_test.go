package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

func TestWatchStarts(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		rv      func(first, last kube.ResourceVersion) string
		match   kube.Match
		initial *bool
		want    []string
	}{
		{"plain", nil, "", nil, []string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"}},
		{"any", rvText("0"), "", nil, []string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"}},
		{"streamed list", nil, kube.MatchNotOlderThan, &yes, []string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"}},
		{"streamed list, not older", func(first, _ kube.ResourceVersion) string { return first.String() }, kube.MatchNotOlderThan, &yes, []string{"ADDED default/a", "ADDED default/b", "END", "ADDED default/c"}},
		{"after the first", func(first, _ kube.ResourceVersion) string { return first.String() }, "", nil, []string{"ADDED default/b", "ADDED default/c"}},
		{"after the last", func(_, last kube.ResourceVersion) string { return last.String() }, "", nil, []string{"ADDED default/c"}},
		{"from now", nil, kube.MatchNotOlderThan, &no, []string{"ADDED default/c"}},
		{"from the cache", rvText("0"), kube.MatchNotOlderThan, &no, []string{"ADDED default/c"}},
		{"from the beginning of time", rvText("1"), "", nil, []string{"ADDED default/a", "ADDED default/b", "ADDED default/c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			cms := s.at("configmaps", "default")
			first := s.create(cms, configMap("a")).ResourceVersion()
			last := s.create(cms, configMap("b")).ResourceVersion()
			w := s.watch(s.at("configmaps"), func(o *kube.ListOptions) {
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
			t.Fatal(err)
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
		t.Fatal(err)
	}
	w := s.watch(cms, func(o *kube.ListOptions) { o.Labels = x1 })
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
	if e.Type != kube.Deleted || e.Object.Labels()["x"] != "1" || e.ResourceVersion != left.ResourceVersion() || e.Object.ResourceVersion() != left.ResourceVersion() {
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
		t.Fatal(err)
	}
	at := func(rv kube.ResourceVersion) func(o *kube.ListOptions) {
		return func(o *kube.ListOptions) { o.ResourceVersion = rv.String() }
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
	w := s.watch(cms, func(o *kube.ListOptions) { o.ResourceVersion = before.String() })
	if diff := cmp.Diff(want, w.take(500)); diff != "" {
		t.Error(diff)
	}
	if stats := s.Stats()["configmaps"]; stats.HistoryReads == 0 || stats.Entries > 64 {
		t.Errorf("the test has not left memory: %+v", stats)
	}
}

func TestWatchFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		cms := s.at("configmaps", "default")
		yes := true
		began := time.Now()
		_, err := s.Watch(t.Context(), cms, options(func(o *kube.ListOptions) {
			o.ResourceVersion, o.Match, o.InitialEvents = "9999999999", kube.MatchNotOlderThan, &yes
		}))
		if _, is := errors.AsType[*kube.TooLargeResourceVersionError](err); !is || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		w := s.watch(cms, func(o *kube.ListOptions) { o.ResourceVersion = "9999999999" })
		s.create(cms, configMap("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if events, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a watch from the future got %v, %v", events, err)
		}
	})
}

// TestStrictWatchFromTheFutureFailsAfterTheWait is what --strict-future-watch does.
func TestStrictWatchFromTheFutureFailsAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t)
		s, _ := serveWith(t, log, registry.Config{Store: log, StrictFutureWatch: true})
		cms := s.at("configmaps", "default")
		current := s.create(cms, configMap("a")).ResourceVersion()
		no := false
		for _, initial := range []*bool{nil, &no} {
			began := time.Now()
			_, err := s.Watch(t.Context(), cms, options(func(o *kube.ListOptions) {
				if o.ResourceVersion, o.InitialEvents = "9999999999", initial; initial != nil {
					o.Match = kube.MatchNotOlderThan
				}
			}))
			want := fmt.Sprintf("504 Timeout Timeout: Too large resource version: 9999999999, current: %d", current)
			if status(err) != want || time.Since(began) != 3*time.Second {
				t.Errorf("after %v: %v, want %s after 3 s", time.Since(began), err, want)
			}
		}
		began := time.Now()
		w := s.watch(cms, func(o *kube.ListOptions) { o.ResourceVersion = current.String() })
		if time.Since(began) != 0 {
			t.Errorf("a watch from the present waited %v", time.Since(began))
		}
		// What comes within the wait is no error.
		come := make(chan error, 1)
		go func() { // ends with the watch, after the write below at the latest
			w, err := s.Watch(t.Context(), cms, options(func(o *kube.ListOptions) { o.ResourceVersion = (current + 1).String() }))
			if err == nil {
				w.Close()
			}
			come <- err
		}()
		<-time.After(2 * time.Second) // of the bubble's clock
		s.create(cms, configMap("b"))
		if err := <-come; err != nil {
			t.Errorf("a resourceVersion that came after 2 s: %v", err)
		}
		if diff := cmp.Diff([]string{"ADDED default/b"}, w.take(1)); diff != "" {
			t.Error(diff)
		}
	})
}
