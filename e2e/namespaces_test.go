package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// deliveries are the events that a handler received, in order.
type deliveries struct {
	mu sync.Mutex
	// mu guards events.
	events []string
}

func (l *deliveries) handle(_ context.Context, e informer.Event[*corev1.ConfigMap]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprint(e.Type, " ", e.Key, " ", e.Initial, " ", e.Inferred))
	return nil
}

// since returns the events from the nth on, sorted.
func (l *deliveries) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.events[min(n, len(l.events)):]))
}

func TestInformerFollowsSeveralNamespaces(t *testing.T) {
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	for _, namespace := range []string{"east", "west", "north"} {
		c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
		c.create(namespace, "a", "1")
	}
	c.create("west", "b", "1")
	maps := informer.New(configMapsOf(s.Server, informer.Namespaces("west", "east", "west", "south")))
	byValue := informer.NewIndex1(maps, "value", func(m *corev1.ConfigMap) string { return m.Data["x"] })
	var received deliveries
	handler := maps.Handle(received.handle)
	stop := runInformer(t, maps)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := handler.WaitSynced(ctx); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	if got := names(maps); got != "east/a west/a west/b" {
		t.Errorf("the cache has %s", got)
	}
	// South is quiet, and bookmarks come once a minute: the write itself is found.
	rv := c.create("east", "c", "2").rv()
	if err := maps.WaitRevision(ctx, rv); err != nil {
		t.Fatalf("wait for the revision: %v", err)
	}
	if got := names(maps); got != "east/a east/c west/a west/b" {
		t.Errorf("after a write the cache has %s", got)
	}
	c.create("north", "d", "2")
	if _, err := maps.Until(ctx, informer.Key{Namespace: "east", Name: "c"}, func(_ *corev1.ConfigMap, found bool) bool {
		return found
	}); err != nil {
		t.Fatalf("until maps: %v", err)
	}
	var indexed []string
	for k := range byValue.Get("2") {
		indexed = append(indexed, k.String())
	}
	if !slices.Equal(indexed, []string{"east/c"}) || byValue.Len("1") != 3 {
		t.Errorf("value 2 has %v", indexed)
	}
	status := maps.Status()
	for status.State == "streaming" && ctx.Err() == nil { // a stream's state is noted after its objects
		<-time.After(time.Millisecond)
		status = maps.Status()
	}
	if status.Lists != 3 || status.State != "watching" || status.Objects != 4 {
		t.Errorf("status %+v", status)
	}
	stop()
	if want := []string{
		"Added east/a true false", "Added east/c false false", "Added west/a true false", "Added west/b true false",
	}; !slices.Equal(received.since(0), want) {
		t.Errorf("the handler received %q", received.since(0))
	}

	// While it is away one namespace's history is compacted and the others' is not.
	before := len(received.since(0))
	c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/west/configmaps/a", "")
	last := c.create("west", "e", "1").rv()
	if _, err := s.Compact(t.Context(), kube.ResourceVersion(number(t, last))); err != nil {
		t.Fatalf("compact: %v", err)
	}
	runInformer(t, maps)
	if _, err := maps.Until(ctx, informer.Key{Namespace: "west", Name: "e"}, func(_ *corev1.ConfigMap, found bool) bool {
		return found
	}); err != nil {
		t.Fatalf("until maps: %v", err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	want := []string{"Added west/e false false", "Deleted west/a false true"}
	for !slices.Equal(received.since(before), want) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the handler received %q, want %q", received.since(before), want)
		}
	}
}

func TestErrorsNameTheNamespaceThatCannotBeRead(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	s := launch(t, gapless.Config{})
	incidents := make(chan informer.Incident, 64)
	unknown := informer.Fields(fields.OneTermEqualSelector("spec.nothing", "x")) // 400
	maps := informer.New(configMapsOf(s.Server, informer.Namespaces("default", "kube-system"), unknown),
		informer.OnError(func(in informer.Incident) {
			select {
			case incidents <- in:
			default: // the first are enough
			}
		}))
	stop := runInformer(t, maps)
	named := map[string]bool{}
	for len(named) < 2 {
		in := <-incidents
		named[in.Key.Namespace] = true
		if !strings.Contains(in.String(), "namespace="+in.Key.Namespace) {
			t.Errorf("incident %s", in)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := maps.WaitSynced(ctx); err == nil || !strings.Contains(err.Error(), "namespace=") {
		t.Errorf("not synced because of %v", err)
	}
	stop()
	if err := informer.New(configMapsOf(s.Server, informer.Namespaces("a", ""))).Run(t.Context()); err == nil {
		t.Error("no namespace among several was taken")
	}
}

// ignorant passes requests on without the parameters that an old server does not know.
type ignorant struct{ next http.RoundTripper }

func (i ignorant) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Del("shardSelector")
	r.URL.RawQuery = q.Encode()
	return i.next.RoundTrip(r)
}

func TestShardedInformersHaveEachObjectOnce(t *testing.T) {
	t.Parallel()
	for name, knows := range map[string]bool{"a server that knows them": true, "a server that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := launch(t, gapless.Config{})
			c := s.caller(t, http1)
			cfg := s.RESTConfig()
			if !knows {
				cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return ignorant{rt} })
			}
			for n := range 40 {
				c.create("default", fmt.Sprintf("o%02d", n), "1")
			}
			shards := make([]*informer.Informer[*corev1.ConfigMap], 3)
			for n := range shards {
				source := informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps"),
					informer.Shard(n, len(shards)))
				shards[n] = informer.New(source)
				runInformer(t, shards[n])
				if err := shards[n].WaitSynced(t.Context()); err != nil {
					t.Fatalf("wait until it is synced: %v", err)
				}
			}
			for n := range 40 {
				switch n % 4 {
				case 0:
					c.remove("default", fmt.Sprintf("o%02d", n))
				case 1:
					c.relabel("default", fmt.Sprintf("o%02d", n), "2")
				}
				c.create("default", fmt.Sprintf("p%02d", n), "1")
			}
			list := c.must(http.StatusOK, http.MethodGet, "/api/v1/configmaps", "")
			want := len(strings.Fields(list.keys()))
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				owners, values := map[string]int{}, 0
				for _, i := range shards {
					for k, m := range i.All() {
						owners[k.String()]++
						if m.Data["x"] == "2" {
							values++
						}
					}
				}
				if len(owners) == want && values == 10 {
					for key, n := range owners {
						if n != 1 {
							t.Errorf("%s is in %d shards", key, n)
						}
					}
					break
				}
				select {
				case <-tick.C:
				case <-t.Context().Done():
					t.Fatalf("%d objects, want %d; %d were changed, want 10", len(owners), want, values)
				}
			}
			for n, i := range shards {
				if got := i.Len(); got == 0 || got == want {
					t.Errorf("shard %d has %d of %d objects", n, got, want)
				}
			}
		})
	}
	if err := informer.New(informer.For[*corev1.ConfigMap](launch(t, gapless.Config{}).RESTConfig(),
		corev1.SchemeGroupVersion.WithResource("configmaps"), informer.Shard(3, 3))).Run(t.Context()); err == nil {
		t.Error("a fourth of three shards was taken")
	}
}
