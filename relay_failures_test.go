package gapless_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/informer"
)

// TestInformerBehindARelayListsOnceWhileUpstreamFails is the short form of what compat does with
// the built program.
func TestInformerBehindARelayListsOnceWhileUpstreamFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream := gaplesstest.New(t)
	r := startRelay(t, gapless.RelayConfig{
		Upstream: upstream.RESTConfig(), DataDir: filepath.Join(t.TempDir(), "relay"), Resources: []string{"configmaps"},
	})
	cfg := through(r, upstream.RESTConfig())
	waitUntil(t, func() error { // until then requests are passed through
		_, err := set(t, cfg).RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err
	})
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps"),
		informer.Namespace("default")))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- maps.Run(ctx) }() // ends with ctx
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
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
			_, err := set(t, upstream.RESTConfig()).CoreV1().ConfigMaps("default").Create(t.Context(), made,
				metav1.CreateOptions{})
			return err
		})
		waitUntil(t, func() error {
			if _, has := maps.Get(informer.Key{Namespace: "default", Name: made.Name}); !has {
				return fmt.Errorf("the informer does not have %s", made.Name)
			}
			return nil
		})
	}
	if got := maps.Status().Lists; got != 1 {
		t.Errorf("the informer listed %d times, want once", got)
	}
}
