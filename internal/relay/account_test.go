package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/relay"
	"github.com/gapless-io/gapless/kube"
)

// reads is a relay whose readers' requests are counted, and what it passes on is sent to upstream.
type reads struct {
	*served

	t     *testing.T
	world scripted
	view  listwatchtest.View
	mu    sync.Mutex
	sent  int // by readers
}

// demand is serve, but nothing is mirrored before it is read.
func demand(t *testing.T, world scripted) *reads {
	t.Helper()
	m, err := mirror.Open(t.Context(), mirror.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the mirror: %v", err)
	}
	cfg := listwatchtest.Config(http.Handler(world))
	r, err := relay.New(relay.Config{Upstream: cfg, Mirror: m})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	out := &reads{served: running(t, r, m), t: t, world: world, view: listwatchtest.View{Server: world.Server}}
	<-r.Asked()
	return out
}

// keyIn is the key of an object in one of some namespaces.
func keyIn(namespace, object int) types.NamespacedName {
	return types.NamespacedName{Namespace: fmt.Sprint("n", namespace), Name: fmt.Sprint("o", object)}
}

func (r *reads) count() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
}

// upstream is how many lists and watches upstream got.
func (r *reads) upstream() int { return len(r.world.Requests()) }

// list lists a namespace, or all, as a client does: what the relay passes on, upstream answers. It checks
// that no change is missing that there was before.
func (r *reads) list(rv string, target kinds.Target) {
	r.count()
	before := r.world.RV()
	l, err := r.relay.Reader().List(r.t.Context(), target, options(rv))
	var versions []kube.ResourceVersion
	of, passed := errors.AsType[*apiserver.FallbackError](err)
	switch {
	case passed:
		defer of.Released()
		view := r.view
		view.Namespace = target.Namespace
		if _, err := view.List(r.t.Context(), metav1.ListOptions{}, func([]byte) error { return nil }); err != nil {
			r.t.Errorf("list view: %v", err)
		}
		return
	case err != nil:
		r.t.Errorf("list %q: %v", rv, err)
		return
	}
	for o, err := range l.Items {
		if err != nil {
			r.t.Error(err)
		}
		versions = append(versions, o.ResourceVersion())
	}
	if rv != "" {
		return
	}
	objects, _ := r.world.ObjectsAt(0, before)
	newest := kube.ResourceVersion(0)
	for _, v := range versions {
		newest = max(newest, v)
	}
	for _, o := range objects {
		if kube.ResourceVersion(o.RV) > newest && (target.Namespace == "" || o.Key.Namespace == target.Namespace) { //nolint:gosec // small
			r.t.Errorf("a list of the most recent state has changes up to %d, upstream had one at %d before", newest, o.RV)
		}
	}
}

// TestUpstreamSeesNoMoreRequestsThanItsReadersSend plays random mixes of reads, at once and one after the
// other, while the collection, others, or nothing changes.
func TestUpstreamSeesNoMoreRequestsThanItsReadersSend(t *testing.T) { playSeeds(t, playReads) }

func playReads(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	world := newScripted()
	world.BookmarkEvery = time.Minute
	delay := time.Duration(rng.IntN(3)) * 30 * time.Millisecond
	world.Fail(func(q listwatchtest.Request) listwatchtest.Fault { return listwatchtest.Fault{Delay: delay} })
	for i := range []int{1, 5, 90, 150, 1000}[rng.IntN(5)] {
		world.PutKey(keyIn(i%7, i), i)
	}
	r := demand(t, world)
	defer r.stop()
	target, _ := r.target()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers sync.WaitGroup
	defer readers.Wait()
	begun := time.Now()
	changes, kind, rounds := rng.IntN(3), rng.IntN(4), 10+rng.IntN(30)
	for range rounds {
		for range 1 + rng.IntN(1+rng.IntN(20)) {
			of := target
			if rng.IntN(2) == 0 {
				of.Namespace = "n3"
			}
			rv := ""
			if kind == 1 && rng.IntN(3) == 0 {
				rv = "0"
			}
			if kind == 2 && rng.IntN(4) == 0 {
				readers.Go(func() { r.watch(ctx, of) })
				continue
			}
			readers.Go(func() { r.list(rv, of) })
			if kind == 3 {
				wait(ctx, time.Second) // one after the other
			}
		}
		switch changes {
		case 1:
			world.PutKey(keyIn(rng.IntN(7), rng.IntN(5)), rng.IntN(1000))
		case 2:
			world.Tick()
		}
		wait(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
	}
	wait(ctx, 10*time.Second)
	// A mirror begins with a list and a watch, and watches again after five to ten minutes, as readers do
	// without a relay.
	overdraft := 2 + int(time.Since(begun)/(5*time.Minute))
	if got := r.upstream(); got > r.sent+overdraft {
		t.Errorf("upstream got %d requests, of %d of readers: %v", got, r.sent, r.world.Requests())
	} else {
		t.Logf("upstream got %d requests, of %d of readers", got, r.sent)
	}
	stop()
}

// watch watches from the state that a list had.
func (r *reads) watch(ctx context.Context, target kinds.Target) {
	r.count()
	w, err := r.relay.Reader().Watch(ctx, target, options("0"))
	if err != nil {
		r.t.Errorf("watch reader: %v", err)
		return
	}
	defer w.Close()
	for err == nil {
		_, err = w.Next(ctx)
	}
}

// TestListsAtOnceShareWhatUpstreamIsAsked: 20 lists of 5 objects were 20 lists that upstream answered, 20
// questions how far it is, and five watches.
func TestListsAtOnceShareWhatUpstreamIsAsked(t *testing.T) {
	for _, c := range []struct{ objects, most int }{{5, 6}, {1000, 22}} {
		t.Run(fmt.Sprint(c.objects), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newScripted()
				for i := range c.objects {
					world.PutKey(keyIn(i%7, i), i)
				}
				r := demand(t, world)
				defer r.stop()
				target, _ := r.target()
				target.Namespace = "n3"
				for range 2 {
					before := r.upstream()
					var readers sync.WaitGroup
					for range 20 {
						readers.Go(func() { r.list("", target) })
					}
					readers.Wait()
					if got := r.upstream() - before; got > c.most {
						t.Errorf("upstream got %d requests for 20 lists, want at most %d: %v",
							got, c.most, r.world.Requests()[before:])
					}
					world.Tick() // something else changes
				}
			})
		})
	}
}
