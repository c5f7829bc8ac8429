// Package tracetest is a collector of traces for tests: an OTLP receiver over gRPC on loopback.
package tracetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector keeps the spans that it gets.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer

	address string

	// mu guards spans.
	mu    sync.Mutex
	spans []*tracev1.Span
}

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	c := &Collector{address: listener.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with Stop
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return c
}

// Export implements collectorv1.TraceServiceServer.
func (c *Collector) Export(
	_ context.Context, r *collectorv1.ExportTraceServiceRequest,
) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// Spans returns what has come so far.
func (c *Collector) Spans() []*tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// File returns a file with a configuration that sends so many of a million traces to the collector.
func (c *Collector) File(t testing.TB, perMillion int) string {
	t.Helper()
	return File(t, c.address, perMillion)
}

// File returns a file with a configuration that sends so many of a million traces to an endpoint.
func File(t testing.TB, endpoint string, perMillion int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\n"+
		"samplingRatePerMillion: %d\n", endpoint, perMillion)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
	return file
}

// Path returns the names of the spans from the first one of a trace to this one, and nil if a span between is missing.
func Path(all []*tracev1.Span, of *tracev1.Span) []string {
	names := []string{of.GetName()}
	for len(of.GetParentSpanId()) > 0 {
		i := slices.IndexFunc(all, func(s *tracev1.Span) bool {
			return slices.Equal(s.GetSpanId(), of.GetParentSpanId()) && slices.Equal(s.GetTraceId(), of.GetTraceId())
		})
		if i < 0 {
			return nil
		}
		of = all[i]
		names = append([]string{of.GetName()}, names...)
	}
	return names
}

// Value returns the value of an attribute, as text; "" if the span has none.
func Value(of *tracev1.Span, key string) string {
	for _, a := range of.GetAttributes() {
		if a.GetKey() != key {
			continue
		}
		if text := a.GetValue().GetStringValue(); text != "" {
			return text
		}
		return fmt.Sprint(a.GetValue().GetIntValue())
	}
	return ""
}
