package dashboard_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// busy is the dashboard of a server with 1 000 watches, at which 500 changes per second are aimed until pause is called, or
// the benchmark ends.
func busy(b *testing.B) (p page, changes *atomic.Int64, pause func()) {
	b.Helper()
	s, _ := runServer(b, func(c *gapless.Config) {
		c.Limits = gapless.Limits{Watches: 2000, StreamsPerConnection: 2000, ResetsPerMinute: 1 << 20}
	})
	a := apiOf(b, s.RESTConfig())
	const watches, perSecond, objects = 1000, 500, 100
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	const path = "/api/v1/namespaces/shop/configmaps"
	for i := range objects {
		a.send("POST", path, fmt.Sprintf(`{"metadata":{"name":"m-%d","labels":{"app":"a-%d"}},"data":{"n":"0"}}`, i, i%10))
	}
	cfg := s.RESTConfig()
	watchers, err := rest.HTTPClientFor(cfg)
	if err != nil {
		b.Fatalf("make a client: %v", err)
	}
	var open sync.WaitGroup
	for i := range watches {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet,
			fmt.Sprintf("%s%s?watch=true&labelSelector=app%%3Da-%d", a.url, path, i%100), http.NoBody)
		if err != nil {
			b.Fatalf("make a request: %v", err)
		}
		got, err := watchers.Do(r)
		if err != nil {
			b.Fatalf("watch: %v", err)
		}
		open.Go(func() { _, _ = io.Copy(io.Discard, got.Body) }) // it ends with the test's context
		b.Cleanup(func() { _ = got.Body.Close(); open.Wait() })
	}
	stop := make(chan struct{})
	changes = &atomic.Int64{}
	var writing sync.WaitGroup
	const writers = 8
	for w := range writers {
		writing.Go(func() {
			tick := time.NewTicker(writers * time.Second / perSecond)
			defer tick.Stop()
			for i := w; ; i += writers {
				select {
				case <-stop:
					return
				case <-tick.C:
					a.send("PATCH", fmt.Sprintf("%s/m-%d", path, i%objects), fmt.Sprintf(`{"data":{"n":"%d"}}`, i))
					changes.Add(1)
				}
			}
		})
	}
	pause = sync.OnceFunc(func() {
		close(stop)
		writing.Wait()
	})
	b.Cleanup(func() {
		pause()
		watchers.CloseIdleConnections()
	})
	p = pageAt(b, s.DashboardURL())
	eventually(b, "there are changes", func() bool { return strings.Contains(p.shows("/"), "and more") })
	return p, changes, pause
}

// BenchmarkPages reads pages of a busy server.
//
//	go test ./internal/dashboard -run '^$' -bench Pages -benchtime 3s
func BenchmarkPages(b *testing.B) {
	p, changes, _ := busy(b)
	for _, path := range []string{
		"/", "/timeline", "/timeline?ns=shop&text=nothing", "/object?r=configmaps.v1&ns=shop&name=m-1", "/watches",
		"/blame?r=configmaps.v1&ns=shop&name=m-1", "/between?ns=shop&a=1s", "/between?ns=shop&a=10s",
	} {
		b.Run(path, func(b *testing.B) {
			size, before := 0, changes.Load()
			for b.Loop() {
				size = len(p.shows(path))
			}
			b.ReportMetric(float64(size), "bytes/page")
			b.ReportMetric(float64(changes.Load()-before)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}
