package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// TestRetentionTakesEffectForWhoAsksAtOnceAndInMemorySoon compacts history in every
// way, while memory still has all of it, and asks for the past in every way.
func TestRetentionTakesEffectForWhoAsksAtOnceAndInMemorySoon(t *testing.T) {
	for _, c := range []struct {
		name    string
		options revlog.Options
		forget  func(s *server)
		reason  string
	}{
		{"by age", revlog.Options{Memory: true, History: 10 * time.Second}, func(*server) { <-time.After(time.Minute) }, "age"},
		{"by bytes", revlog.Options{Memory: true, HistoryBytes: 1 << 20}, func(s *server) {
			for i := range 40 {
				s.merge(s.at("secrets", "default", "large"),
					fmt.Sprintf(`{"stringData":{"a":"%d%s"}}`, i, strings.Repeat("x", 100<<10)))
			}
			<-time.After(time.Second)
		}, "bytes"},
		{"by request", revlog.Options{Memory: true}, func(s *server) {
			if _, err := s.Compact(s.t.Context(), store.Compaction{
				UpTo: int64(s.list(s.at("secrets"), nil).ResourceVersion),
			}); err != nil {
				s.t.Fatalf("compact: %v", err)
			}
		}, "requested"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkRetention(t, c.options, c.forget, c.reason) })
		})
	}
}

func checkRetention(t *testing.T, o revlog.Options, forget func(*server), reason string) {
	t.Helper()
	log := openLogWith(t, o)
	s, _ := serveWith(t, log, registry.Config{Store: log})
	cms := s.at("configmaps", "default")
	s.create(s.at("secrets", "default"), `{"metadata":{"name":"large"}}`)
	quiet := s.create(s.at("serviceaccounts", "default"), `{"metadata":{"name":"quiet"}}`).ResourceVersion()
	first := s.create(cms, configMap("a")).ResourceVersion()
	s.create(cms, configMap("b"))
	page := s.list(cms, func(o *wire.ListOptions) { o.Limit = 1 })
	for i := range 30 { // less than the cache remembers
		s.merge(s.at("configmaps", "default", "a"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5))
		s.list(cms, func(o *wire.ListOptions) { // it is kept
			o.ResourceVersion, o.Match, o.Limit = (page.ResourceVersion + kube.ResourceVersion(i)).String(), wire.MatchExact, 1
		})
	}
	floor := s.get(s.at("configmaps", "default", "a")).ResourceVersion()
	follower := s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = floor.String() })
	forget(s)
	for rv := first; rv < floor; rv++ {
		_, listErr := s.List(t.Context(), cms,
			options(func(o *wire.ListOptions) { o.ResourceVersion, o.Match = rv.String(), wire.MatchExact }))
		_, pageErr := s.List(t.Context(), cms,
			options(func(o *wire.ListOptions) { o.Limit, o.Continue = 1, wire.EncodeContinue(int64(rv), "a\x00") }))
		_, watchErr := s.Watch(t.Context(), cms, options(func(o *wire.ListOptions) { o.ResourceVersion = rv.String() }))
		for kind, err := range map[kube.ExpiredKind]error{
			kube.ExpiredList: listErr, kube.ExpiredContinue: pageErr, kube.ExpiredWatch: watchErr,
		} {
			if e := expired(err); e == nil || e.Kind != kind || e.Oldest != floor || e.Reason != reason {
				t.Errorf("%v at %d, the floor is %d: %v", kind, rv, floor, err)
			}
		}
		if _, end := s.deltaSince(cms, rv).initial(); end.Since != 0 {
			t.Errorf("a delta since %d, the floor is %d", rv, floor)
		}
	}
	<-time.After(10 * time.Second)
	if stats := s.Stats()["configmaps"]; stats.Entries != 0 || stats.Bytes != 0 || stats.Kept != 0 || stats.Gone != floor {
		t.Errorf("memory holds what was forgotten: %+v", stats)
	}
	if got := s.list(cms, func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = floor.String(), wire.MatchExact
	}); len(names(got)) != 2 {
		t.Errorf("at the floor: %v", names(got))
	}
	accounts := s.at("serviceaccounts", "default")
	if got := s.list(accounts, func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = quiet.String(), wire.MatchExact
	}); len(names(got)) != 1 {
		t.Errorf("a quiet resource: %v", names(got))
	}
	s.watch(accounts, func(o *wire.ListOptions) { o.ResourceVersion = "1" })
	s.create(cms, configMap("c"))
	if got := follower.take(1); got[0] != "ADDED default/c" {
		t.Errorf("a watch that was there sees %v", got)
	}
	again := s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = floor.String() })
	if got := again.take(1); got[0] != "ADDED default/c" {
		t.Errorf("a watch from the floor sees %v", got)
	}
}

// What Compact returns is in effect when it returns, also for readers that do not
// wait for the publisher.
func TestCompactionTakesEffectBeforeItIsAnswered(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	s.create(cms, configMap("a"))
	for i := range 50 {
		was := s.get(s.at("configmaps", "default", "a")).ResourceVersion()
		now := s.merge(s.at("configmaps", "default", "a"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5)).ResourceVersion()
		if upTo, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(now)}); err != nil || upTo != now {
			t.Fatalf("compacted up to %d: %v", upTo, err)
		}
		if _, err := s.List(t.Context(), cms,
			options(func(o *wire.ListOptions) {
				o.ResourceVersion, o.Match = was.String(), wire.MatchExact
			})); expired(err) == nil {
			t.Fatalf("list at %d: %v", was, err)
		}
	}
}

// TestAnOpenWatchOutlivesTheCompactionOfWhatItIsAboutToRead: it is a moment behind, as any watch
// of a busy server.
func TestAnOpenWatchOutlivesTheCompactionOfWhatItIsAboutToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLogWith(t, revlog.Options{Memory: true})
		s, _ := serveWith(t, log, registry.Config{Store: log})
		cms := s.at("configmaps", "default")
		from := s.create(cms, configMap("a")).ResourceVersion()
		open := func() *watcher { return s.watch(cms, func(o *wire.ListOptions) { o.ResourceVersion = from.String() }) }
		behind, late := open(), open()
		var now kube.ResourceVersion
		for i := range 3 {
			now = s.merge(s.at("configmaps", "default", "a"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5)).ResourceVersion()
		}
		if _, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(now)}); err != nil {
			t.Fatalf("compact: %v", err)
		}
		if got := behind.take(3); len(got) != 3 {
			t.Errorf("it sees %v", got)
		}
		<-time.After(time.Minute)
		if _, err := late.Next(t.Context()); expired(err) == nil {
			t.Errorf("what was compacted a minute ago is kept for a watch: %v", err)
		}
	})
}
