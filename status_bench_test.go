package gapless_test

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/status"
)

// BenchmarkStatus measures the status of a server with 100 000 objects and 1 000 watches, over the network, and one without
// watches, as the dashboard asks for it.
func BenchmarkStatus(b *testing.B) {
	const objects, watches, writers = 100_000, 1_000, 16
	s := gaplesstest.New(b)
	cfg := s.RESTConfig()
	cfg.QPS = -1
	c := set(b, cfg)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := w; i < objects; i += writers {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m-", i)}}
				if _, err := c.CoreV1().ConfigMaps("default").Create(b.Context(), m, metav1.CreateOptions{}); err != nil {
					b.Errorf("create: %v", err)
					return
				}
			}
		})
	}
	writing.Wait()
	for i := range watches {
		w, err := c.CoreV1().ConfigMaps("default").Watch(b.Context(), metav1.ListOptions{
			ResourceVersion: "0", FieldSelector: fmt.Sprint("metadata.name=m-", i),
		})
		if err != nil {
			b.Fatalf("watch: %v", err)
		}
		defer w.Stop()
	}
	for _, of := range []struct{ name, watches string }{{"1000 watches", "1000"}, {"0 watches", "0"}} {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				body, err := c.CoreV1().RESTClient().Get().AbsPath(status.Path).Param(status.WatchesParameter, of.watches).
					DoRaw(b.Context())
				if err != nil {
					b.Fatalf("ask for the status: %v", err)
				}
				b.SetBytes(int64(len(body)))
			}
		})
	}
}
