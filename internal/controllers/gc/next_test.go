package gc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// one is a registry with one object, whose owner is gone. Other verbs than those here are not used.
type one struct {
	gc.Verbs

	object  *wire.Object
	hangs   bool  // until the context ends
	fails   error // of every read
	deleted chan string
}

func (o *one) Get(ctx context.Context, t kinds.Target, _ string) (*wire.Object, error) {
	if o.hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if o.fails != nil {
		return nil, o.fails
	}
	if t.Name != o.object.Key().Name {
		return nil, wire.NotFound(t.Resource.GR(), t.Name)
	}
	return o.object, nil
}

// List finds no owner in another namespace.
func (*one) List(context.Context, kinds.Target, wire.ListOptions) (*wire.List, error) {
	return &wire.List{Items: func(func(*wire.Object, error) bool) {}}, nil
}

func (o *one) Delete(_ context.Context, t kinds.Target, _ metav1.DeleteOptions) (wire.Written, error) {
	o.deleted <- t.Name
	return wire.Written{}, nil
}

// dependent returns an object whose owner is gone.
func dependent(t *testing.T, name string) *wire.Object {
	t.Helper()
	o, err := wire.NewObject(fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":"of-%s",`+
			`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"owner-of-%s"}]}}`, name, name, name),
		5, nil)
	if err != nil {
		t.Fatalf("make the object %s: %v", name, err)
	}
	return o
}

func newCollector() *gc.Collector {
	return gc.New(gc.Config{Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.DiscardHandler)})
}

// run runs a collector until a function returns, which is called beside it.
func run(t *testing.T, c *gc.Collector, verbs gc.Verbs, until func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, verbs) }() // ends with stop
	until()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("end a run: %v", err)
	}
}

var configMaps = kinds.GroupResource{Resource: "configmaps"}

// TestTheNextRunCollectsWhatTheFormerHasNot: a replica can stop in the middle, and lead again.
func TestTheNextRunCollectsWhatTheFormerHasNot(t *testing.T) {
	for name, former := range map[string]one{
		"it was under way": {hangs: true},
		"it had failed":    {fails: errors.New("the disk is full")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, object := newCollector(), dependent(t, "a")
				c.Changed(configMaps, nil, object)
				verbs := &one{
					object: object, hangs: former.hangs, fails: former.fails,
					deleted: make(chan string, 1),
				}
				run(t, c, verbs, synctest.Wait)
				if s := c.Stats(); s.Pending != 0 || s.Failed != 0 || s.Objects != 2 {
					t.Errorf("after the first run: %+v, want the object and its owner, and nothing in a queue", s)
				}
				verbs.hangs, verbs.fails = false, nil
				run(t, c, verbs, func() {
					if name := <-verbs.deleted; name != "a" {
						t.Errorf("deleted %s, want a", name)
					}
				})
			})
		})
	}
}

// TestACollectorThatDoesNotRunKeepsNothingOfDeletedObjects: most replicas do not lead, for months.
func TestACollectorThatDoesNotRunKeepsNothingOfDeletedObjects(t *testing.T) {
	come := func(c *gc.Collector, all []*wire.Object) {
		for _, o := range all {
			c.Changed(configMaps, nil, o)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		all := make([]*wire.Object, 100)
		for i := range all {
			all[i] = dependent(t, fmt.Sprint(i))
		}
		for name, c := range map[string]struct {
			verbs *one // of a run that has ended; nil: there was none
		}{
			"it never ran":       {},
			"it ran, and hung":   {&one{hangs: true}},
			"it ran, and failed": {&one{fails: errors.New("the disk is full")}},
		} {
			collector := newCollector()
			if c.verbs != nil {
				come(collector, all)
				run(t, collector, c.verbs, synctest.Wait)
			}
			come(collector, all)
			if s := collector.Stats(); s.Objects != 2*len(all) || s.Pending != 0 {
				t.Errorf("%s: %+v with %d objects, want them and their owners, and nothing in the queue", name, s, len(all))
			}
			for _, o := range all {
				collector.Changed(configMaps, o, nil)
			}
			s := collector.Stats()
			s.Errors = 0
			if s != (gc.Stats{}) {
				t.Errorf("%s: %+v after all objects were deleted, want nothing", name, s)
			}
		}
	})
}
