package gc_test

import (
	"context"
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
	hangs   bool // until the context ends
	asked   chan struct{}
	deleted chan string
}

func (o *one) Get(ctx context.Context, t kinds.Target, _ string) (*wire.Object, error) {
	if o.hangs {
		o.asked <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
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

// TestTheNextRunCollectsWhatTheFormerHasNot: a replica can stop in the middle, and lead again.
func TestTheNextRunCollectsWhatTheFormerHasNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object, err := wire.NewObject(
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default",`+
				`"uid":"u1","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"u0"}]}}`), 5, nil)
		if err != nil {
			t.Fatalf("make the object: %v", err)
		}
		c := gc.New(gc.Config{Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.DiscardHandler)})
		c.Changed(kinds.GroupResource{Resource: "configmaps"}, nil, object)
		verbs := &one{object: object, hangs: true, asked: make(chan struct{}, 1), deleted: make(chan string, 1)}
		run := func(until func()) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx, verbs) }() // ends with stop
			until()
			stop()
			if err := <-ended; err != nil {
				t.Errorf("end a run: %v", err)
			}
		}
		run(func() { <-verbs.asked })
		verbs.hangs = false
		run(func() {
			if name := <-verbs.deleted; name != "a" {
				t.Errorf("deleted %s, want a", name)
			}
		})
	})
}
