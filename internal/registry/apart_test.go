package registry_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// base is the revision of a log before its first write.
const base = 1_000_000_000

// apart runs a registry with a store for Events, which is returned too, and one for all others. The one for Events
// cannot be read while away is true.
func apart(t *testing.T, away *atomic.Bool) (s *server, events *revlog.Log) {
	t.Helper()
	log, events := openLog(t), openLog(t)
	s, _ = serveWith(t, log, registry.Config{Store: log, Apart: []registry.Apart{{
		Store: cutOff{events, away}, Resources: []kinds.GroupResource{{Resource: "events"}}, Late: true,
	}}})
	return s, events
}

// TestAResourceApartHasResourceVersionsOfItsOwnStore: in both of its groups, in objects, lists and watches.
func TestAResourceApartHasResourceVersionsOfItsOwnStore(t *testing.T) {
	s, events := apart(t, new(atomic.Bool))
	core, fresh := s.at("events", "default"), s.at(newEvents, "default")
	w := s.watch(core, nil)
	s.create(s.at("configmaps", "default"), configMap("a"))
	if rv := s.create(core, oldEvent("old")).ResourceVersion(); rv != base+1 {
		t.Errorf("the first Event has resourceVersion %d, want %d", rv, base+1)
	}
	if rv := s.create(fresh, newEvent("new")).ResourceVersion(); rv != base+2 {
		t.Errorf("the second Event has resourceVersion %d, want %d", rv, base+2)
	}
	if diff := cmp.Diff([]string{"END", "ADDED default/old", "ADDED default/new"}, w.take(3)); diff != "" {
		t.Errorf("the watch: -want +got:\n%s", diff)
	}
	for resource, want := range map[string]kube.ResourceVersion{
		"events": base + 2, newEvents: base + 2, "configmaps": base + 5,
	} {
		if rv := s.list(s.at(resource, "default"), nil).ResourceVersion; rv != want {
			t.Errorf("a list of %s has resourceVersion %d, want %d", resource, rv, want)
		}
	}
	since := s.watch(core, func(o *wire.ListOptions) { o.ResourceVersion = "1000000001" })
	if diff := cmp.Diff([]string{"ADDED default/new"}, since.take(1)); diff != "" {
		t.Errorf("the watch since the first one: -want +got:\n%s", diff)
	}
	all := store.Query{Start: "events/", End: "events0"}
	if page, err := events.Read(t.Context(), all); err != nil || len(page.Records) != 2 {
		t.Errorf("the store of Events has %d records, %v, want 2", len(page.Records), err)
	}
	if page, err := s.log.Read(t.Context(), all); err != nil || len(page.Records) != 0 {
		t.Errorf("the other store has %d Events, %v, want none", len(page.Records), err)
	}
}

// TestAResourceVersionOfAnotherStoreWasNotGivenOut: a client that moved here with it lists again.
func TestAResourceVersionOfAnotherStoreWasNotGivenOut(t *testing.T) {
	s, _ := apart(t, new(atomic.Bool))
	since := options(func(o *wire.ListOptions) { o.ResourceVersion = "1000000004" })
	w, err := s.Watch(t.Context(), s.at("events", "default"), since)
	if err == nil {
		defer w.Close()
		_, err = w.Next(t.Context())
	}
	if e := expired(err); e == nil || e.Reason != kube.ReasonReplaced {
		t.Errorf("watch Events from the resourceVersion of a namespace: %v, want 410", err)
	}
}

// TestAStoreThatIsAwayRefusesItsResourcesOnly, and a namespace with content there stays until it is back.
func TestAStoreThatIsAwayRefusesItsResourcesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		s, _ := apart(t, &away)
		s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
		s.create(s.at("events", "default"), oldEvent("e"))
		away.Store(true)
		_, err := s.List(t.Context(), s.at("events", "default"), options(nil))
		if wire.StatusOf(err).Code != http.StatusServiceUnavailable {
			t.Errorf("list Events of a store that is away: %v, want 503", err)
		}
		known := func(o *wire.ListOptions) { o.ResourceVersion = "0" }
		if list := s.list(s.at("events", "default"), known); len(names(list)) != 1 {
			t.Errorf("the last known state has %v, want one Event", names(list))
		}
		s.create(s.at("configmaps", "default"), configMap("a"))
		s.list(s.at("configmaps", "default"), nil)
		s.delete(s.at("namespaces", "", "n"))
		<-time.After(time.Minute)
		if list := s.list(s.at("namespaces"), nil); !slices.Contains(names(list), "n") {
			t.Error("the namespace has gone, though nobody knows whether it has Events")
		}
		away.Store(false)
		<-time.After(2 * time.Minute)
		if list := s.list(s.at("namespaces"), nil); slices.Contains(names(list), "n") {
			t.Error("the namespace is there two minutes after the store of Events")
		}
	})
}

// TestAStoreThatMayBeLateDoesNotDelayTheStart: its resources are refused until it was read, and nothing is lost.
func TestAStoreThatMayBeLateDoesNotDelayTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		s, _ := apart(t, &away)
		s.create(s.at("configmaps", "default"), configMap("a"))
		s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
		s.delete(s.at("namespaces", "", "n"))
		at := s.at("events", "default")
		_, listing := s.List(t.Context(), at, options(func(o *wire.ListOptions) { o.ResourceVersion = "0" }))
		_, creating := s.Create(t.Context(), at, []byte(oldEvent("e")), metav1.CreateOptions{})
		for verb, err := range map[string]error{"list": listing, "create": creating} {
			if got := wire.StatusOf(err); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Message, "away") {
				t.Errorf("%s Events before their store was read: %v, want 503 with the cause", verb, err)
			}
		}
		_, err := s.Compact(t.Context(), store.Compaction{OlderThan: time.Hour})
		if wire.StatusOf(err).Code != http.StatusServiceUnavailable {
			t.Errorf("compact everything before a store was read: %v, want 503", err)
		}
		<-time.After(time.Minute)
		if list := s.list(s.at("namespaces"), nil); !slices.Contains(names(list), "n") {
			t.Error("the namespace has gone, though nobody knows whether it has Events")
		}
		away.Store(false)
		<-time.After(2 * time.Minute)
		s.create(at, oldEvent("e"))
		if got := names(s.list(at, nil)); len(got) != 1 {
			t.Errorf("once the store was read there are the Events %v, want one", got)
		}
		if list := s.list(s.at("namespaces"), nil); slices.Contains(names(list), "n") {
			t.Error("the namespace is there two minutes after the store of Events")
		}
	})
}

// TestHistoryIsCompactedByAgeInEveryStore, and by a resourceVersion where that is one.
func TestHistoryIsCompactedByAgeInEveryStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, events := apart(t, new(atomic.Bool))
		s.create(s.at("events", "default"), oldEvent("a"))
		s.delete(s.at("events", "default", "a"))
		if _, err := s.Compact(t.Context(), store.Compaction{UpTo: base + 4}); err != nil {
			t.Fatalf("compact up to a resourceVersion: %v", err)
		}
		if at := events.Stats().Compacted; at > base {
			t.Errorf("a compaction at a resourceVersion of another store compacted the Events at %d", at)
		}
		<-time.After(time.Hour)
		if _, err := s.Compact(t.Context(), store.Compaction{OlderThan: time.Minute}); err != nil {
			t.Fatalf("compact by age: %v", err)
		}
		if at := events.Stats().Compacted; at != base+2 {
			t.Errorf("the Events are compacted up to %d, want %d", at, base+2)
		}
	})
}
