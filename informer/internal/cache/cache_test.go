package cache_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/index"
	"github.com/gapless-io/gapless/informer/internal/queue"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

type object struct {
	metav1.ObjectMeta `json:"metadata"`
}

func text(namespace, name, rv string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q}}`, namespace, name,
		namespace+name, rv)
}

// namespace is a source: one object "a" at the version that the list has, and then the
// frames that come.
type namespace struct {
	name, rv string
	frames   chan client.Frame
}

func (n *namespace) source() reflector.Source[*object] {
	return reflector.Source[*object]{
		List: func(_ context.Context, _ metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
			return metav1.ListMeta{ResourceVersion: n.rv}, each(text(n.name, "a", n.rv))
		},
		Watch: func(ctx context.Context, _ metav1.ListOptions) (client.Stream, error) {
			return &watch{ctx, n.frames}, nil
		},
		Decode: func(raw []byte) (handle.Handle[*object], error) {
			o := new(object)
			err := json.Unmarshal(raw, o)
			return handle.Of(o), err
		},
	}
}

type watch struct {
	ctx    context.Context //nolint:containedctx // the request's
	frames chan client.Frame
}

func (w *watch) Next() (client.Frame, error) {
	select {
	case f := <-w.frames:
		return f, nil
	case <-w.ctx.Done():
		return client.Frame{}, w.ctx.Err()
	}
}

func (w *watch) Ready() bool  { return len(w.frames) > 0 }
func (w *watch) Close() error { return nil }

// rig is a cache of two namespaces, at versions 5 and 7, and a handler of it.
type rig struct {
	*cache.Cache[*object]

	one, two  *namespace
	handler   *cache.Handler[*object]
	delivered []string
}

func newRig() *rig {
	r := &rig{
		Cache: cache.New(cache.Hooks[*object]{
			Report: func(incident.Incident) {}, Begin: func(transition.Action) {}, End: func(reflector.Ending, int) {},
			Published: func() {},
		}),
		one: &namespace{"one", "5", make(chan client.Frame, 9)}, two: &namespace{"two", "7", make(chan client.Frame, 9)},
	}
	for _, n := range []*namespace{r.one, r.two} {
		r.AddStream(n.name, n.source(), transition.State{NoStream: true})
	}
	r.handler = &cache.Handler[*object]{Name: "h", Queue: queue.New(func(_ context.Context, d queue.Delivery[*object]) error {
		r.delivered = append(r.delivered, fmt.Sprintf("%d %s initial=%t", d.Kind, d.Key, d.Initial))
		return nil
	}, queue.Filter[*object]{}, queue.Options{Workers: 1, RetryMin: time.Second, RetryMax: time.Second},
		func(incident.Incident) {})}
	return r
}

// during runs the cache, and calls f when everything is quiet.
func (r *rig) during(t *testing.T, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.Start(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Reflect(ctx) }() // ends with cancel
	synctest.Wait()
	f()
	synctest.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
	r.Stop(cancel)
}

func keys(s *cache.Snapshot[*object]) string {
	var all []string
	for k, o := range s.All() {
		all = append(all, k.String()+"@"+o.ResourceVersion)
	}
	return strings.Join(all, " ")
}

func TestNamespaceStreamsBecomeOneSnapshotAtTheOldestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Add(r.handler)
		r.during(t, func() {
			first := r.Current()
			if got := keys(first); got != "one/a@5 two/a@7" || first.RV != "5" {
				t.Errorf("the first state is %s at %s", got, first.RV)
			}
			r.one.frames <- client.Frame{Type: kube.Added, Object: text("one", "b", "9")}
			synctest.Wait()
			now := r.Current()
			if got := keys(now); got != "one/a@5 one/b@9 two/a@7" || now.RV != "7" {
				t.Errorf("the next state is %s at %s", got, now.RV)
			}
			select {
			case <-first.Superseded():
			default:
				t.Error("the first state is not superseded")
			}
			if got := keys(first); got != "one/a@5 two/a@7" {
				t.Errorf("the first state became %s", got)
			}
			for rv, want := range map[string]bool{"7": true, "8": false, "9": true} {
				if is, err := now.Includes(rv, first); is != want || err != nil {
					t.Errorf("it includes %s: %t, %v; want %t", rv, is, err, want)
				}
			}
		})
		slices.Sort(r.delivered)
		want := []string{"1 one/a initial=true", "1 one/b initial=false", "1 two/a initial=true"}
		if diff := cmp.Diff(want, r.delivered); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

func TestALateHandlerGetsTheStateAndThenTheChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.during(t, func() {
			r.Add(r.handler)
			synctest.Wait()
			r.one.frames <- client.Frame{Type: kube.Deleted, Object: text("one", "a", "9")}
			synctest.Wait()
			r.Enqueue(r.handler, handle.Key{Namespace: "two", Name: "a"})
		})
		slices.Sort(r.delivered)
		want := []string{"1 one/a initial=true", "1 two/a initial=true", "3 one/a initial=false", "4 two/a initial=false"}
		if diff := cmp.Diff(want, r.delivered); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

func TestResyncReDeliversEveryObjectOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.handler.Resync = time.Minute
		r.Add(r.handler)
		r.during(t, func() { <-time.After(2*time.Minute + time.Second) })
		if len(r.delivered) != 2+4 {
			t.Errorf("at the beginning and in two periods two objects are delivered as %q", r.delivered)
		}
	})
}

func TestAnIndexBelongsToItsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		f := &index.Function[*object, string]{
			Values:   func(buffer []string, o *object) []string { return append(buffer, o.Name) },
			Panicked: func(handle.Key, string, *incident.PanicError) {},
		}
		r.during(t, func() {
			before := r.Current()
			place := cache.AddIndex(r.Cache, f)
			first := r.Current()
			r.two.frames <- client.Frame{Type: kube.Deleted, Object: text("two", "a", "9")}
			synctest.Wait()
			if cache.Index(before, place, f) != nil {
				t.Error("a snapshot from before the index has it")
			}
			for n, s := range []*cache.Snapshot[*object]{first, r.Current()} {
				if got := cache.Index(s, place, f).Set().Len("a"); got != 2-n {
					t.Errorf("snapshot %d has %d objects with the value, want %d", n, got, 2-n)
				}
			}
		})
	})
}
