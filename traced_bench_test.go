package gapless_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/tracing/tracetest"
)

// BenchmarkTracing creates and lists ConfigMaps over one connection, without tracing, with it for none of the requests, and
// for all of them.
func BenchmarkTracing(b *testing.B) {
	for _, c := range []struct {
		name string
		rate int // of a million; negative: off
	}{{"off", -1}, {"none", 0}, {"all", 1_000_000}} {
		cfg := gapless.Config{}
		if c.rate >= 0 {
			cfg.TracingConfigFile = tracetest.Start(b).File(b, c.rate)
		}
		s := launch(b, cfg)
		client, err := rest.HTTPClientFor(s.RESTConfig())
		if err != nil {
			b.Fatalf("make a client: %v", err)
		}
		send := func(b *testing.B, method, body string) {
			req, err := http.NewRequestWithContext(b.Context(), method, s.URL()+configMapsURL, strings.NewReader(body))
			if err != nil {
				b.Fatalf("make a request: %v", err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil || resp.StatusCode/100 != 2 {
				b.Fatalf("%s: %v, %v", method, resp, err)
			}
			_ = resp.Body.Close()
		}
		i := 0
		send(b, http.MethodPost, `{"metadata":{"name":"first"}}`)
		b.Run("list/"+c.name, func(b *testing.B) {
			for b.Loop() {
				send(b, http.MethodGet, "")
			}
		})
		b.Run("create/"+c.name, func(b *testing.B) {
			for b.Loop() {
				i++
				send(b, http.MethodPost, fmt.Sprintf(`{"metadata":{"name":"a-%d"}}`, i))
			}
		})
		client.CloseIdleConnections()
		s.stop()
	}
}
