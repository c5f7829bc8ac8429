package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// deltaSince opens a watch that may begin with a delta.
func (s *server) deltaSince(t kinds.Target, rv kube.ResourceVersion) *watcher {
	s.t.Helper()
	yes := true
	return s.watch(t, func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match, o.InitialEvents = rv.String(), wire.MatchNotOlderThan, &yes
		o.Bookmarks, o.Delta = true, true
	})
}

// initial reads the initial events and returns their lines and what ends them.
func (w *watcher) initial() (lines []string, end wire.WatchEvent) {
	w.t.Helper()
	for {
		e := w.next()
		if e.Type == kube.InitialEventsEnd {
			return lines, e
		}
		lines = append(lines, fmt.Sprintf("%s %s@%d", e.Type, e.Object.Key(), e.ResourceVersion))
	}
}

func TestDeltaReplacesTheInitialState(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	for _, name := range []string{"hot", "gone", "same"} {
		s.create(cms, configMap(name))
	}
	known := s.list(cms, nil).ResourceVersion
	var hot, last kube.ResourceVersion
	for i := range 300 { // more than the cache remembers
		hot = s.merge(s.at("configmaps", "default", "hot"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5)).ResourceVersion()
	}
	s.delete(s.at("configmaps", "default", "gone"))
	created := s.create(cms, configMap("new")).ResourceVersion()
	last = s.create(s.at("secrets", "default"), `{"metadata":{"name":"s"}}`).ResourceVersion()
	w := s.deltaSince(cms, known)
	if w.Position() != 0 {
		t.Errorf("position %d before the delta", w.Position())
	}
	lines, end := w.initial()
	want := []string{
		fmt.Sprintf("MODIFIED default/hot@%d", hot), fmt.Sprintf("DELETED default/gone@%d", hot+1),
		fmt.Sprintf("ADDED default/new@%d", created),
	}
	if diff := cmp.Diff(want, lines); diff != "" || end.ResourceVersion != last || end.Since != known || w.Position() != last {
		t.Errorf("end %+v at %d (-want +got):\n%s", end, w.Position(), diff)
	}
	s.delete(s.at("configmaps", "default", "new"))
	if diff := cmp.Diff([]string{"DELETED default/new"}, w.take(1)); diff != "" {
		t.Errorf("what follows (-want +got):\n%s", diff)
	}
	// A client that is up to date gets an empty delta.
	lines, end = s.deltaSince(s.at("secrets"), last).initial()
	if len(lines) != 0 || end.Since != last || end.ResourceVersion != last+1 {
		t.Errorf("nothing has changed: %v, %+v", lines, end)
	}
}

func TestWatchBehindTheFloorGetsTheWholeStateInsteadOfADelta(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	known := s.create(cms, configMap("a")).ResourceVersion()
	s.create(cms, configMap("b"))
	floor := s.merge(s.at("configmaps", "default", "a"), `{"data":{"a":"new"}}`).ResourceVersion()
	s.create(cms, configMap("c"))
	if _, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(floor)}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	lines, end := s.deltaSince(cms, known).initial()
	want := []string{
		fmt.Sprintf("ADDED default/a@%d", floor), fmt.Sprintf("ADDED default/b@%d", floor-1),
		fmt.Sprintf("ADDED default/c@%d", floor+1),
	}
	if diff := cmp.Diff(want, lines); diff != "" || end.Since != 0 || end.ResourceVersion != floor+1 {
		t.Errorf("end %+v (-want +got):\n%s", end, diff)
	}
	if lines, end = s.deltaSince(cms, floor).initial(); len(lines) != 1 || end.Since != floor {
		t.Errorf("at the floor: %v, %+v", lines, end)
	}
}

func TestLargeDeltaIsSplitIntoBatches(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	known := s.list(cms, nil).ResourceVersion
	for i := range 600 {
		s.create(cms, configMap(fmt.Sprintf("c%03d", i)))
	}
	w := s.deltaSince(cms, known)
	count, batches := 0, 0
	for w.Position() == 0 {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatalf("read the next: %v", err)
		}
		if count += len(events); len(events) > 257 {
			t.Errorf("%d events at once", len(events))
		}
		batches++
	}
	if count != 601 || batches != 3 {
		t.Errorf("%d events in %d batches, want 601 in 3", count, batches)
	}
}

func TestDeltaIsInTheWatchedVersion(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds),
		strings.Replace(definition(""), `"versions":[`,
			`"versions":[{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},`, 1))
	v1, v2 := s.at(foos, "default"), s.at("t.example.com/v2/foos", "default")
	known := s.create(v1, foo("a", `{}`)).ResourceVersion()
	s.create(v1, foo("b", `{}`))
	s.delete(s.at(foos, "default", "a"))
	w := s.deltaSince(v2, known)
	for _, want := range []string{"ADDED default/b", "DELETED default/a"} {
		if e := w.next(); fmt.Sprintf("%s %s", e.Type, e.Object.Key()) != want || e.Object.APIVersion() != "t.example.com/v2" {
			t.Errorf("%s of %s: %s, want %s", e.Type, e.Object.APIVersion(), e.Object.JSON(), want)
		}
	}
}
