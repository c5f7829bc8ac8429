package gapless_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/tracing/tracetest"
)

// TestARequestIsTracedThroughAllItsParts has a webhook, which receives the trace, and callers that name theirs.
func TestARequestIsTracedThroughAllItsParts(t *testing.T) {
	collector := tracetest.Start(t)
	s := launch(t, gapless.Config{TracingConfigFile: collector.File(t, 1_000_000)})
	admin := s.web(t)
	webhook := newAsker(t)
	var mu sync.Mutex
	var told []string // headers traceparent
	inner := webhook.Config.Handler
	webhook.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		told = append(told, r.Header.Get("Traceparent"))
		mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	s.must(t, admin, "POST "+registration+"validatingwebhookconfigurations",
		webhook.configuration(t, "Validating", "v", webhook.URL, ""), http.StatusCreated)
	s.must(t, admin, "POST "+configMapsURL, `{"metadata":{"name":"a"}}`, http.StatusCreated)
	s.must(t, admin, "GET "+configMapsURL+"?resourceVersion=0", "", http.StatusOK)
	s.must(t, admin, "GET /api/v1/namespaces/default/services/missing", "", http.StatusNotFound)
	s.stop()

	spans := collector.Spans()
	var paths []string
	for _, span := range spans {
		path := tracetest.Path(spans, span)
		if len(path) == 0 {
			t.Errorf("the parent of %s is missing", span.GetName())
			continue
		}
		if strings.Contains(path[0], "configmaps") || strings.Contains(path[0], "services") {
			paths = append(paths, strings.Join(path, " > "))
		}
	}
	slices.Sort(paths)
	const create = "POST /api/v1/namespaces/{:namespace}/configmaps"
	want := []string{
		"GET /api/v1/namespaces/{:namespace}/configmaps",
		"GET /api/v1/namespaces/{:namespace}/services/{:name}",
		"GET /api/v1/namespaces/{:namespace}/services/{:name} > Get",
		create,
		create + " > Create",
		create + " > Create > Admission: mutate",
		create + " > Create > Admission: validate",
		create + " > Create > Admission: validate > Call validating webhook",
		create + " > Create > Admission: validate > Call validating webhook > HTTP POST",
		create + " > Create > Store: commit",
		create + " > Create > Wait until published",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	calls := slices.DeleteFunc(slices.Clone(spans), func(s *tracev1.Span) bool { return s.GetName() != "HTTP POST" })
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || len(calls) != 1 ||
		!strings.Contains(told[0], hexOf(calls[0].GetTraceId())+"-"+hexOf(calls[0].GetSpanId())) {
		t.Errorf("the webhook received %q from %d calls", told, len(calls))
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, c := range b {
		text.WriteByte(digits[c>>4])
		text.WriteByte(digits[c&15])
	}
	return text.String()
}

// TestATraceGoesThroughARelay has a relay and a server that trace to the same collector.
func TestATraceGoesThroughARelay(t *testing.T) {
	collector := tracetest.Start(t)
	file := collector.File(t, 1_000_000)
	s := launch(t, gapless.Config{TracingConfigFile: file})
	upstream := s.RESTConfig()
	r, stop := runRelay(t, gapless.RelayConfig{
		Upstream: upstream, Memory: true, TracingConfigFile: file, Access: gapless.RelayAccess{ClientCAFile: caFile(t, upstream)},
	})
	client, err := rest.HTTPClientFor(through(r, upstream))
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer client.CloseIdleConnections()
	for _, request := range []string{"POST", "GET"} {
		req, err := http.NewRequestWithContext(t.Context(), request, r.URL()+configMapsURL,
			strings.NewReader(`{"metadata":{"name":"a"}}`))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s through the relay: %v", request, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s through the relay: %s", request, resp.Status)
		}
	}
	client.CloseIdleConnections()
	stop()
	s.stop()
	spans := collector.Spans()
	var paths []string
	for _, span := range spans {
		paths = append(paths, strings.Join(tracetest.Path(spans, span), " > "))
	}
	for _, want := range []string{
		"POST passed on > HTTP POST > POST /api/v1/namespaces/{:namespace}/configmaps > Create > Store: commit",
		"GET /api/v1/namespaces/{:namespace}/configmaps > Wait until the mirror is fresh",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("there is no %q in\n%s", want, strings.Join(paths, "\n"))
		}
	}
}

func caFile(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, cfg.CAData, 0o600); err != nil {
		t.Fatalf("write the CA: %v", err)
	}
	return file
}

func TestAWrongTracingConfigurationEndsTheStart(t *testing.T) {
	file := tracetest.File(t, "https://collector:4317", 1)
	if err := startError(t, gapless.Config{Memory: true, TracingConfigFile: file}); !strings.Contains(err, file) ||
		!strings.Contains(err, "endpoint") {
		t.Errorf("the server: %s", err)
	}
	s := launch(t, gapless.Config{})
	r, err := gapless.NewRelay(gapless.RelayConfig{
		Upstream: s.RESTConfig(), Memory: true, Listen: "127.0.0.1:0", TracingConfigFile: file,
	})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), file) ||
		!strings.Contains(err.Error(), "endpoint") {
		t.Errorf("the relay: %v", err)
	}
}
