package relay_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/internal/relay"
)

var (
	benchObjects  = flag.Int("objects", 10_000, "objects of 2 KB at upstream, in the benchmarks")
	benchWatchers = flag.Int("watchers", 500, "watchers, in the benchmarks")
)

// fill creates objects of 2 KB at upstream.
func fill(b *testing.B, cfg *rest.Config, n int) {
	b.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	c := clientset(b, cfg)
	text := strings.Repeat("x", 1700)
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < n; i += 32 {
				o := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%06d", i)}, Data: map[string]string{"v": text},
				}
				if _, err := c.CoreV1().ConfigMaps(namespace).Create(b.Context(), o, metav1.CreateOptions{}); err != nil {
					b.Errorf("create config maps: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkStart measures how long a relay takes until it serves a resource, with nothing on
// its disk, and with everything but the last hundred changes.
func BenchmarkStart(b *testing.B) {
	upstream := gaplesstest.New(b)
	fill(b, upstream.RESTConfig(), *benchObjects)
	all := func(c *relay.Config) { c.Resources = []string{"configmaps"} }
	dir := ""
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			dir = b.TempDir()
			s := openRelay(b, upstream.RESTConfig(), dir, all)
			b.StopTimer()
			s.stop()
			b.StartTimer()
		}
	})
	b.Run("warm", func(b *testing.B) {
		dir = b.TempDir()
		openRelay(b, upstream.RESTConfig(), dir, all).stop()
		for b.Loop() {
			s := openRelay(b, upstream.RESTConfig(), dir, all)
			b.StopTimer()
			s.stop()
			b.StartTimer()
		}
	})
}

// BenchmarkLatency measures how long after a write at upstream its event arrives: at a watch of
// upstream, and at watches of the relay, of which one is looked at.
func BenchmarkLatency(b *testing.B) {
	for _, relayed := range []bool{false, true} {
		b.Run(map[bool]string{false: "upstream", true: "relay"}[relayed], func(b *testing.B) {
			upstream := gaplesstest.New(b)
			direct := clientset(b, upstream.RESTConfig())
			from := direct
			if relayed {
				s := openRelay(b, upstream.RESTConfig(), b.TempDir(), nil)
				from = clientset(b, s.config())
			}
			_, rv := list(b, from, metav1.ListOptions{})
			for range *benchWatchers {
				w := follow(b, from, rv)
				go func() { // it ends with the watch
					for range w.ResultChan() {
					}
				}()
			}
			watched := follow(b, from, rv)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				took = append(took, latency(b, direct, watched.ResultChan(), i))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

// latency writes an object and waits for its event.
func latency(b *testing.B, c *kubernetes.Clientset, events <-chan watch.Event, i int) time.Duration {
	b.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("l", i)}}
	made, err := c.CoreV1().ConfigMaps(namespace).Create(b.Context(), o, metav1.CreateOptions{})
	written := time.Now()
	if err != nil {
		b.Fatalf("create config maps: %v", err)
	}
	for e := range events {
		if o, is := e.Object.(*corev1.ConfigMap); is && o.UID == made.UID {
			return time.Since(written)
		}
	}
	b.Fatal("the watch ended")
	return 0
}

// BenchmarkList measures a list that the relay serves from its mirror, without the network: of one object, so that
// what each request costs is not hidden by its objects.
func BenchmarkList(b *testing.B) {
	upstream := gaplesstest.New(b)
	fill(b, upstream.RESTConfig(), 1)
	s := openRelay(b, upstream.RESTConfig(), "", func(c *relay.Config) { c.Resources = []string{"configmaps"} })
	path := "/api/v1/namespaces/" + namespace + "/configmaps?resourceVersion=0&labelSelector=" + url.QueryEscape("!absent")
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("Authorization", "Bearer token")
		r.Header.Set("Accept", "application/json")
		r.Header.Set("User-Agent", "bench")
		if s.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("list config maps: %d %s", w.Code, w.Body)
		}
	}
}
