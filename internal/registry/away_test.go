package registry_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// managed is a store whose values of one resource need a key management service. While that is away, each read waits
// for it for 3 s.
type managed struct {
	store.Store

	resource string
	away     *atomic.Bool
}

func (s managed) unreadable(key string, revision int64, value []byte) *store.UnreadableError {
	if value == nil || !s.away.Load() || store.ResourceOf(key) != s.resource {
		return nil
	}
	return &store.UnreadableError{
		Key: key, Revision: revision, Encryption: "k8s:enc:kms:v2:k:", Temporary: true, Cause: errSealed,
	}
}

func (s managed) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.Read(ctx, q)
	for i := range page.Records {
		r := &page.Records[i]
		if r.Unreadable = s.unreadable(r.Key, r.ModRevision, r.Value); r.Unreadable == nil {
			continue
		}
		<-time.After(3 * time.Second) // of the test's own time
		r.Value = nil
		if !q.Unreadable {
			return store.Page{}, r.Unreadable
		}
	}
	return page, err
}

func (s managed) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	changes, err := s.Store.Changes(ctx, f)
	return managedChanges{changes, s}, err
}

type managedChanges struct {
	store.Changes

	store managed
}

func (s managedChanges) Next(ctx context.Context) (store.Batch, error) {
	batch, err := s.Changes.Next(ctx)
	for i := range batch.Changes {
		c := &batch.Changes[i]
		if c.Unreadable = s.store.unreadable(c.Key, c.Revision, c.Value); c.Unreadable != nil {
			c.Value = nil
		}
	}
	return batch, err
}

// TestAKeyServiceThatIsAwayIsAskedOnceForAllValues: writes of other resources do not wait longer to be seen.
func TestAKeyServiceThatIsAwayIsAskedOnceForAllValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t)
		var away atomic.Bool
		s, _ := sharing(t, log, registry.Config{Store: managed{log, "secrets", &away}})
		away.Store(true)
		for name := range strings.SplitSeq("abcdefghi", "") {
			s.store("secrets/default/"+name,
				`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"`+name+`","namespace":"default","uid":"1"}}`)
		}
		s.create(s.at("configmaps", "default"), configMap("a"))
		var longest time.Duration
		for range 60 {
			began := time.Now()
			s.merge(s.at("configmaps", "default", "a"), `{"data":{"a":"`+began.String()+`"}}`)
			longest = max(longest, time.Since(began))
			<-time.After(time.Second)
		}
		if longest > 3*time.Second {
			t.Errorf("a write of another resource took %v", longest)
		}
		away.Store(false)
		<-time.After(time.Minute)
		if got := s.list(s.at("secrets"), nil); len(names(got)) != 9 {
			t.Errorf("then there are %v", names(got))
		}
	})
}

// TestALateStoreThatWaitsForAKeyServiceIsUnavailable: it names no object, and nothing counts as known meanwhile.
func TestALateStoreThatWaitsForAKeyServiceIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, events := openLog(t), openLog(t)
		if _, err := events.Commit(t.Context(), store.Txn{Key: "events/default/e", Value: []byte(storedEvent("e"))}); err != nil {
			t.Fatalf("write an Event: %v", err)
		}
		var away atomic.Bool
		away.Store(true)
		s, _ := sharing(t, log, registry.Config{Store: log, Apart: []registry.Apart{{
			Store: managed{events, "events", &away}, Resources: []kinds.GroupResource{{Resource: "events"}}, Late: true,
		}}})
		_, listing := s.List(t.Context(), s.at("events", "default"), options(func(o *wire.ListOptions) {
			o.ResourceVersion = "0"
		}))
		_, compacting := s.Compact(t.Context(), store.Compaction{OlderThan: time.Hour})
		for what, err := range map[string]error{
			"list": listing, "compact": compacting, "look for unknown objects": s.Unknown("default"),
			"look for unknown Events": s.UnknownOf(kinds.GroupResource{Resource: "events"}, "default", "e"),
		} {
			if got := wire.StatusOf(err); err == nil || got.Code != http.StatusServiceUnavailable ||
				strings.Contains(got.Message, "default/e") {
				t.Errorf("%s: %v, want 503 without a name", what, err)
			}
		}
		away.Store(false)
		<-time.After(time.Minute)
		if got := names(s.list(s.at("events", "default"), nil)); !slices.Equal(got, []string{"default/e"}) {
			t.Errorf("then there are %v", got)
		}
		if err := s.Unknown("default"); err != nil {
			t.Errorf("then unknown is %v", err)
		}
	})
}

// TestAKeyOfAnotherStoresResourceIsNoObject: its revision is of another store.
func TestAKeyOfAnotherStoresResourceIsNoObject(t *testing.T) {
	s, _ := apart(t, new(atomic.Bool))
	s.create(s.at("events", "default"), oldEvent("own"))
	s.store("events/default/foreign", storedEvent("foreign"))
	known := func(o *wire.ListOptions) { o.ResourceVersion = "0" }
	if got := names(s.list(s.at("events", "default"), known)); !slices.Equal(got, []string{"default/own"}) {
		t.Errorf("there are %v", got)
	}
}

// storedEvent is an Event as servers store it.
func storedEvent(name string) string {
	return `{"apiVersion":"v1","kind":"Event","metadata":{"name":"` + name + `","namespace":"default","uid":"1"}}`
}
