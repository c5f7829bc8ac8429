package gapless_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
)

// counting counts requests for the whole state.
type counting struct {
	http.RoundTripper

	lists *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); !q.Has("watch") || q.Has("sendInitialEvents") {
		c.lists.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// TestInformerBehindARelayListsOnceWhileUpstreamFails is the short form of what compat does with
// the built program.
func TestInformerBehindARelayListsOnceWhileUpstreamFails(t *testing.T) {
	upstream := gaplesstest.New(t)
	r := startRelay(t, gapless.RelayConfig{Upstream: upstream.RESTConfig(), DataDir: filepath.Join(t.TempDir(), "relay"), Resources: []string{"configmaps"}})
	var lists atomic.Int64
	cfg := through(r, upstream.RESTConfig())
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &lists} })
	waitUntil(t, func() error { // until then requests are passed through
		_, err := set(t, cfg).RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err
	})
	lists.Store(0)
	from := cache.NewListWatchFromClient(set(t, cfg).CoreV1().RESTClient(), "configmaps", "default", fields.Everything())
	informer := cache.NewSharedIndexInformer(from, &corev1.ConfigMap{}, 0, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		informer.Run(ctx.Done())
	}()
	defer func() {
		stop()
		<-ended
	}()
	for _, step := range []struct {
		name string
		do   func(testing.TB)
	}{
		{"nothing", func(testing.TB) {}},
		{"restart", upstream.Restart},
		{"crash", upstream.Crash},
		{"compaction", func(t testing.TB) { upstream.Compact(t) }},
		{"restart-again", upstream.Restart},
	} {
		step.do(t)
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after-" + step.name}}
		waitUntil(t, func() error {
			_, err := set(t, upstream.RESTConfig()).CoreV1().ConfigMaps("default").Create(t.Context(), made, metav1.CreateOptions{})
			return err
		})
		waitUntil(t, func() error {
			if _, has, err := informer.GetStore().GetByKey("default/" + made.Name); err != nil || !has {
				return fmt.Errorf("the informer does not have %s: %v", made.Name, err)
			}
			return nil
		})
	}
	if got := lists.Load(); got != 1 {
		t.Errorf("the informer listed %d times, want once", got)
	}
}
