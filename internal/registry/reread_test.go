package registry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// slowly is a store each of whose reads takes a second.
type slowly struct{ store.Store }

func (s slowly) Read(ctx context.Context, q store.Query) (store.Page, error) {
	<-time.After(time.Second) // of the test's own time
	return s.Store.Read(ctx, q)
}

// firstToKnow is a follower that checks that nobody else learns before it that an object can be read again.
type firstToKnow struct {
	t   *testing.T
	got atomic.Int64
}

func (*firstToKnow) Loaded(*caches.Resource)                 {}
func (*firstToKnow) Defined(created, ended *caches.Resource) {}

func (f *firstToKnow) Appended(r *caches.Resource, entries []*watchcache.Entry) {
	for _, e := range entries {
		if r.Readable(e.Object.Key()) == nil {
			f.t.Errorf("%s can be read before followers know of it", e.Object.Key())
		}
		f.got.Add(1)
	}
}

// cachesOf are those of a store that others write to. publish runs their publishers until the test ends.
func cachesOf(t *testing.T, s store.Store, follower caches.Follower) (set *caches.Set, publish func()) {
	t.Helper()
	set = caches.NewSet(caches.Config{
		Store: s, Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.DiscardHandler), Shared: true,
	})
	publishers, err := set.Load(t.Context())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	running := false
	t.Cleanup(func() {
		cancel()
		if running {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("publish: %v", err)
			}
		}
		if err := publishers.Close(); err != nil {
			t.Errorf("close the feeds: %v", err)
		}
	})
	return set, func() {
		running = true
		go func() { ended <- publishers.Run(ctx, follower) }() // ends with ctx
	}
}

// secret is one as servers store it.
func secret(name string) string {
	return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `","namespace":"default","uid":"1"}}`
}

// TestAStateFromBeforeItsValuesWereReadAgainIsNotGiven: it has the same resourceVersion as the one that has them, and
// who followed changes from there would never get them.
func TestAStateFromBeforeItsValuesWereReadAgainIsNotGiven(t *testing.T) {
	secrets, lost := kinds.GroupResource{Resource: "secrets"}, wire.Key{Namespace: "default", Name: "b"}
	type asked struct {
		readable func() error
		take     func(context.Context) (*watchcache.Snapshot, error)
	}
	for name, of := range map[string]func(r *caches.Resource, rv kube.ResourceVersion) asked{
		"list": func(r *caches.Resource, _ kube.ResourceVersion) asked {
			return asked{func() error { return r.Whole("default") }, func(ctx context.Context) (*watchcache.Snapshot, error) {
				return r.Cache.WaitFresh(ctx, 0)
			}}
		},
		"list of a namespace": func(r *caches.Resource, rv kube.ResourceVersion) asked {
			return asked{func() error { return r.WholeIn("default") }, func(ctx context.Context) (*watchcache.Snapshot, error) {
				return r.Cache.WaitFresh(ctx, rv)
			}}
		},
		"exact list": func(r *caches.Resource, rv kube.ResourceVersion) asked {
			return asked{func() error { return r.WholeAt("", rv) }, func(ctx context.Context) (*watchcache.Snapshot, error) {
				return r.Cache.At(ctx, rv)
			}}
		},
		"get": func(r *caches.Resource, rv kube.ResourceVersion) asked {
			return asked{func() error { return r.Readable(lost) }, func(ctx context.Context) (*watchcache.Snapshot, error) {
				return r.Cache.WaitFresh(ctx, rv)
			}}
		},
	} {
		// The value is tried again after 5 s, which takes a second, and then all of the resource are read, which
		// takes another one: readers begin before, while it is tried, and while all are read.
		for _, after := range []time.Duration{0, 5500 * time.Millisecond, 6500 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s after %v", name, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := openLog(t)
					var closed atomic.Bool
					closed.Store(true)
					s := &server{t: t, log: log}
					rv := s.commit("secrets/default/a", secret("a"))
					rv = max(rv, s.commit("secrets/default/b", secret("b")))
					follower := &firstToKnow{t: t}
					set, publish := cachesOf(t, slowly{sealed{log, &closed}}, follower)
					publish()
					closed.Store(false)
					r := set.Lookup(secrets)
					<-time.After(after)
					a, times := of(r, rv), 0
					state, err := r.State(t.Context(), a.readable, func(ctx context.Context) (*watchcache.Snapshot, error) {
						s, err := a.take(ctx)
						if times++; times == 1 {
							<-time.After(time.Minute) // all are read before it is asked whether they can be
						}
						return s, err
					})
					if err != nil {
						t.Fatalf("take the state: %v", err)
					}
					if _, found := state.Get(lost); !found || state.RV() != rv || times != 2 {
						t.Errorf("after %d times the state at %d has the object: %t; want it at %d", times, state.RV(), found, rv)
					}
					if follower.got.Load() != 2 {
						t.Errorf("followers got %d objects", follower.got.Load())
					}
				})
			})
		}
	}
}

// commit is store without a registry.
func (s *server) commit(key, value string) kube.ResourceVersion {
	s.t.Helper()
	done, err := s.log.Commit(s.t.Context(), store.Txn{Key: key, Value: []byte(value)})
	if err != nil {
		s.t.Fatalf("write %s: %v", key, err)
	}
	return kube.ResourceVersion(done.Revision)
}

// damaging is a store that cannot decrypt the values of some keys.
type damaging struct {
	store.Store

	healed *atomic.Pointer[string] // one key of secrets; the others are damaged for good
}

func (d damaging) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := d.Store.Read(ctx, q)
	for i := range page.Records {
		r := &page.Records[i]
		if healed := d.healed.Load(); store.ResourceOf(r.Key) == "secrets" && (healed == nil || *healed != r.Key) {
			r.Value = nil
			r.Unreadable = &store.UnreadableError{
				Key: r.Key, Revision: r.ModRevision, Encryption: "k8s:enc:aesgcm:v1:k:", Cause: errSealed,
			}
		}
	}
	return page, err
}

// TestEveryValueIsTriedAgain: also where more than are tried at once come before it, and stay as they are.
func TestEveryValueIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t)
		s := &server{t: t, log: log}
		const all = 30
		var keys []string
		for i := range all {
			keys = append(keys, fmt.Sprintf("secrets/default/s%02d", i))
			s.commit(keys[i], secret(fmt.Sprintf("s%02d", i)))
		}
		var healed atomic.Pointer[string]
		set, publish := cachesOf(t, damaging{log, &healed}, &firstToKnow{t: t})
		publish()
		r := set.Lookup(kinds.GroupResource{Resource: "secrets"})
		left := keys
		for len(left) > 1 {
			last := left[len(left)-1]
			healed.Store(&last)
			<-time.After(time.Minute) // of the test's own time
			if err := r.Readable(r.KeyOf(last)); err != nil {
				t.Fatalf("of %d values the last can be read, and was not: %v", len(left), err)
			}
			left = left[:len(left)-1]
		}
		want := []string{"default/s00"}
		var got []string
		for _, o := range r.Unreadable() {
			got = append(got, o.Key.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("unreadable are %v, want %v", got, want)
		}
	})
}

// TestAListInPagesFromBeforeAValueWasReadAgainExpires: its next page could lack the value, which is at or before the
// resourceVersion of the first one, or after it.
func TestAListInPagesFromBeforeAValueWasReadAgainExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		log := openLog(t)
		s, _ := sharing(t, log, registry.Config{Store: sealed{log, &closed}})
		for _, name := range []string{"a", "b"} {
			s.store("secrets/default/"+name, secret(name))
		}
		begun := s.list(s.at("secrets"), func(o *wire.ListOptions) { o.Limit = 1 })
		closed.Store(true)
		last := s.store("secrets/default/c", secret("c"))
		goOn := func(token string) (*wire.List, error) {
			return s.List(t.Context(), s.at("secrets"), options(func(o *wire.ListOptions) { o.Limit, o.Continue = 1, token }))
		}
		_, err := goOn(begun.Continue)
		checkUnreadable(t, "the next page", err, `"secrets/default/c"`)
		closed.Store(false)
		<-time.After(time.Minute) // of the test's own time
		_, err = goOn(begun.Continue)
		e := expired(err)
		if e == nil || e.Reason != kube.ReasonUnreadable || e.Oldest != last || e.Continue == "" {
			t.Fatalf("then the next page is %v, want 410 with another token", err)
		}
		// What follows is of the resourceVersion at which all was read again, on which there is one state only.
		latest, err := goOn(e.Continue)
		if err != nil {
			t.Fatalf("go on in the latest state: %v", err)
		}
		s.create(s.at("secrets", "default"), `{"metadata":{"name":"d"}}`)
		rest, err := goOn(latest.Continue)
		if err != nil {
			t.Fatalf("go on: %v", err)
		}
		if got := slices.Concat(names(latest), names(rest)); !slices.Equal(got, []string{"default/b", "default/c"}) ||
			rest.Continue != "" || rest.ResourceVersion != last {
			t.Errorf("the pages have %v at %d, want b and c at %d", got, rest.ResourceVersion, last)
		}
	})
}
