package gc_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

var errUnknown = errors.New("an object cannot be read")

// TestADeletionIsNotFinishedWhileThereMayBeUnknownDependents: an object of which nothing is known may be one.
func TestADeletionIsNotFinishedWhileThereMayBeUnknownDependents(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keepsTheOwner(t, policy) })
		})
	}
}

// collecting runs a registry with a collector that asks unknown for what is unknown, until stop is called. at is where
// ConfigMaps are.
func collecting(t *testing.T, unknown func(namespace string) error) (r *registry.Registry, at kinds.Target, stop func()) {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	live := kinds.NewLive(builtin.Catalog())
	c := gc.New(gc.Config{Live: live, Logger: slog.New(slog.DiscardHandler), Unknown: unknown})
	r = registry.New(registry.Config{Store: log, Live: live, Collectors: []registry.Collector{c}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 3)
	go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
	go func() { ended <- r.Run(ctx) }()                          // ends with ctx
	if err := r.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	go func() { ended <- c.Run(ctx, r) }() // ends with ctx
	resource, _ := live.Load().Storage(kinds.GroupResource{Resource: "configmaps"})
	return r, kinds.Target{Resource: resource, Namespace: "default"}, func() {
		cancel()
		err := errors.Join(<-ended, <-ended)
		if err := errors.Join(err, log.Close(), <-ended); err != nil {
			t.Errorf("close the log and wait for the end: %v", err)
		}
	}
}

func keepsTheOwner(t *testing.T, policy metav1.DeletionPropagation) {
	t.Helper()
	var known atomic.Bool
	r, at, stop := collecting(t, func(namespace string) error {
		if known.Load() || namespace != "default" {
			return nil
		}
		return errUnknown
	})
	defer stop()
	if _, err := r.Create(t.Context(), at, []byte(`{"metadata":{"name":"owner"}}`), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	at.Name = "owner"
	if _, err := r.Delete(t.Context(), at, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	<-time.After(10 * time.Minute) // of the test's own time
	if _, err := r.Get(t.Context(), at, ""); err != nil {
		t.Errorf("the owner is gone: %v", err)
	}
	known.Store(true)
	<-time.After(2 * time.Minute)
	if _, err := r.Get(t.Context(), at, ""); wire.StatusOf(err).Code != http.StatusNotFound {
		t.Errorf("then the owner is still there: %v", err)
	}
}

// TestAnOwnerWaitsForADependentThatBecomesKnownAsItIsFinished: also if that was just found to have nothing to wait for.
func TestAnOwnerWaitsForADependentThatBecomesKnownAsItIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		becomes := func() {}
		r, at, stop := collecting(t, func(string) error {
			becomes()
			return nil
		})
		defer stop()
		owner, err := r.Create(t.Context(), at, []byte(`{"metadata":{"name":"owner"}}`), metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		becomes = sync.OnceFunc(func() { // the collector hears of it as of one that is read again
			body := `{"metadata":{"name":"dependent","finalizers":["t.example.com/held"],"ownerReferences":[{"apiVersion":"v1",` +
				`"kind":"ConfigMap","name":"owner","uid":"` + string(owner.Object.UID()) + `","blockOwnerDeletion":true}]}}`
			if _, err := r.Create(t.Context(), at, []byte(body), metav1.CreateOptions{}); err != nil {
				t.Errorf("create the dependent: %v", err)
			}
		})
		at.Name = "owner"
		if _, err := r.Delete(t.Context(), at,
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
			t.Fatalf("delete: %v", err)
		}
		<-time.After(10 * time.Minute) // of the test's own time
		if _, err := r.Get(t.Context(), at, ""); err != nil {
			t.Errorf("the owner is gone before its dependent: %v", err)
		}
		at.Name = "dependent"
		if _, err := r.Patch(t.Context(), at, wire.Patch{
			Type: types.MergePatchType, Body: []byte(`{"metadata":{"finalizers":null}}`),
		}, metav1.PatchOptions{}); err != nil {
			t.Fatalf("release the dependent: %v", err)
		}
		<-time.After(time.Minute)
		for _, at.Name = range []string{"owner", "dependent"} {
			if _, err := r.Get(t.Context(), at, ""); wire.StatusOf(err).Code != http.StatusNotFound {
				t.Errorf("then %s is still there: %v", at.Name, err)
			}
		}
	})
}
