package e2e_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

func TestInformerUsesFieldSelectorAndLogsExpiry(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	c.create("default", "a", "1")
	c.create("default", "b", "1")
	var log lockedBuffer
	only := informer.Fields(fields.OneTermEqualSelector("metadata.name", "a"))
	maps := informer.New(
		informer.For[*corev1.ConfigMap](s.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps"), only),
		informer.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	gone := make(chan struct{})
	handler := maps.Handle(func(_ context.Context, e informer.Event[*corev1.ConfigMap]) error {
		if e.Type == informer.Deleted && e.Inferred {
			close(gone)
		}
		return nil
	})
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- maps.Run(ctx) }() // ends with stop
		if err := maps.WaitSynced(t.Context()); err != nil {
			t.Fatalf("wait until it is synced: %v", err)
		}
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("wait for the end: %v", err)
			}
		}
	}
	stop := run()
	if err := handler.WaitSynced(t.Context()); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	stop()
	if _, there := maps.Get(informer.Key{Namespace: "default", Name: "a"}); !there || maps.Len() != 1 {
		t.Errorf("%d objects, want a alone", maps.Len())
	}
	// While it is away what it needs is compacted; the next Run must notice, say so
	// in the log, and catch up.
	c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/default/configmaps/a", "")
	last := c.create("default", "c", "1").rv()
	if _, err := s.Compact(t.Context(), kube.ResourceVersion(number(t, last))); err != nil {
		t.Fatalf("compact: %v", err)
	}
	defer run()()
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Error("the handler received no deletion")
	}
	if !strings.Contains(log.String(), "too old resource version") {
		t.Errorf("the log does not tell of the 410:\n%s", log.String())
	}
}

// Items of lists of built-in kinds do not say what they are, objects of watches do, and
// items of lists of custom resources too, as upstream has it.
func TestDynamicInformerSetsKindOfListedObjects(t *testing.T) {
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	c.create("default", "a", "1")
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for _, opts := range [][]informer.Option{nil, {informer.NoStreamingLists()}} {
		maps := informer.New(informer.Dynamic(s.RESTConfig(), configMaps, informer.Namespace("default")), opts...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- maps.Run(ctx) }() // ends with cancel
		if err := maps.WaitSynced(t.Context()); err != nil {
			t.Fatalf("wait until it is synced: %v", err)
		}
		a, there := maps.Get(informer.Key{Namespace: "default", Name: "a"})
		if !there || a.GetKind() != "ConfigMap" || a.GetAPIVersion() != "v1" {
			t.Errorf("%d objects, %v", maps.Len(), a)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}
}
