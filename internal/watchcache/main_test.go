package watchcache_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// seedFlag re-runs a model test: go test -run Model -seed 42.
var seedFlag = flag.Uint64("seed", 0, "run the model tests with this seed only; 0 runs several")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// seeds are those that a model test runs, printed so that a failure replays.
func seeds(t *testing.T, n int) []uint64 {
	t.Helper()
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	if testing.Short() {
		n = (n + 9) / 10
	}
	var all []uint64
	for range n {
		all = append(all, rand.Uint64()|1)
	}
	return all
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// fieldPaths are the selectable fields of the tests' resource.
var fieldPaths = []wire.FieldPath{{Label: "spec.node", Path: []string{"spec", "node"}}}

// thing describes an object of the tests.
type thing struct {
	namespace, name string
	app, node       string
	size            int // of its payload, in bytes
}

func (o thing) at(tb testing.TB, rv kube.ResourceVersion) *wire.Object {
	tb.Helper()
	value := fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Thing","metadata":{"name":%q,"namespace":%q,"uid":"u-%s","labels":{"app":%q}},"spec":{"node":%q,"payload":%q}}`,
		o.name, o.namespace, o.name, o.app, o.node, strings.Repeat("0", o.size))
	object, err := wire.NewObject([]byte(value), rv, fieldPaths)
	if err != nil {
		tb.Fatalf("object of the test: %v", err)
	}
	return object
}

// fixture is a cache with its clock, at resourceVersion 100.
type fixture struct {
	tb    testing.TB
	clock *watchcache.Clock
	cache *watchcache.Cache
}

const loadedAt = 100

func newFixture(tb testing.TB, cfg watchcache.Config, objects ...*wire.Object) *fixture {
	tb.Helper()
	cfg.Clock = watchcache.NewClock(loadedAt)
	f := &fixture{tb: tb, clock: cfg.Clock, cache: watchcache.New(cfg)}
	f.cache.Load(objects, loadedAt)
	return f
}

// put appends and publishes the object as of rv.
func (f *fixture) put(rv kube.ResourceVersion, o thing) *wire.Object {
	f.tb.Helper()
	object := o.at(f.tb, rv)
	f.cache.Append(watchcache.NewEntry(rv, object, nil))
	f.clock.Publish(rv)
	return object
}

func (f *fixture) remove(rv kube.ResourceVersion, o thing) {
	f.tb.Helper()
	previous, found := f.cache.Snapshot().Get(wire.Key{Namespace: o.namespace, Name: o.name})
	if !found {
		f.tb.Fatalf("%s/%s is not there", o.namespace, o.name)
	}
	f.cache.Append(watchcache.NewDeletion(rv, previous))
	f.clock.Publish(rv)
}

func (f *fixture) cursor(rv kube.ResourceVersion, sel watchcache.Selection) *watchcache.Cursor {
	f.tb.Helper()
	cursor, err := f.cache.CursorAfter(f.tb.Context(), rv, sel)
	if err != nil {
		f.tb.Fatalf("CursorAfter(%d): %v", rv, err)
	}
	f.tb.Cleanup(cursor.Close)
	return cursor
}

// next returns the available events, or nothing when Next would block. It needs a
// synctest bubble, in which the second passes at once.
func next(tb testing.TB, cursor *watchcache.Cursor) []wire.WatchEvent {
	tb.Helper()
	events, err := poll(tb.Context(), cursor)
	if err != nil {
		tb.Fatalf("Next: %v", err)
	}
	return events
}

func poll(ctx context.Context, cursor *watchcache.Cursor) ([]wire.WatchEvent, error) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	events, err := cursor.Next(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return events, err
}

func brief(events []wire.WatchEvent) []string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s %s %s", e.Type, e.ResourceVersion, e.Object.Key()))
	}
	return out
}

func keys(s *watchcache.Snapshot, start string, sel watchcache.Selection) []string {
	var out []string
	for o := range s.Scan(start, sel) {
		out = append(out, o.Key().String())
	}
	return out
}

func appIs(app string) watchcache.Selection {
	return watchcache.Selection{Labels: labels.SelectorFromSet(labels.Set{"app": app})}
}
