package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
)

// sink is a client that takes everything and keeps nothing.
type sink struct {
	header http.Header
	status int
	bytes  int64
	lines  func(p []byte)
}

func (s *sink) Header() http.Header  { return s.header }
func (s *sink) WriteHeader(code int) { s.status = code }
func (s *sink) Flush()               {}
func (s *sink) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	if s.lines != nil {
		s.lines(p)
	}
	return len(p), nil
}

// loaded returns a handler over n config maps of about 1 KB.
func loaded(b *testing.B, n int) (http.Handler, *registry.Registry, kinds.Target) {
	b.Helper()
	live := kinds.NewLive(builtin.Catalog())
	reg := openRegistry(b, live)
	target := kinds.Target{Namespace: "default"}
	target.Resource, _ = live.Load().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for i := range n {
		write(b, reg, target, fmt.Sprintf("cm-%05d", i))
	}
	return apiserver.New(b.Context(), apiserver.Config{Reader: reg, Writer: reg, Live: live}), reg, target
}

func write(b *testing.B, reg *registry.Registry, target kinds.Target, name string) {
	b.Helper()
	body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `"},"data":{"a":"` + strings.Repeat("x",
		780) + `"}}`
	if _, err := reg.Create(b.Context(), target, []byte(body), metav1.CreateOptions{}); err != nil {
		b.Fatalf("create reg: %v", err)
	}
}

func get(b testing.TB, path string, headers ...string) *http.Request {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
	admin := &x509.Certificate{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}}
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{admin}}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatalf("read the CPU time: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// loop runs f again and again, and reports the processor time of one run, which on a busy
// machine says more than the time on the clock.
func loop(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	var began time.Duration
	for b.Loop() {
		if began == 0 {
			began = processorTime(b)
		}
		f()
	}
	b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkList lists 10 000 objects of 1 KB through the handler.
func BenchmarkList(b *testing.B) {
	h, _, _ := loaded(b, 10_000)
	for _, c := range []struct {
		name    string
		headers []string
	}{
		{"json", nil},
		{"gzip", []string{"Accept-Encoding: gzip"}},
		{"protobuf", []string{protobufAccepted}},
		{"protobuf-gzip", []string{protobufAccepted, "Accept-Encoding: gzip"}},
		{"metadata", []string{"Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}},
		{"table", []string{acceptTable}},
	} {
		b.Run(c.name, func(b *testing.B) {
			loop(b, func() {
				w := &sink{header: http.Header{}}
				h.ServeHTTP(w, get(b, configMaps+"?resourceVersion=0", c.headers...))
				b.SetBytes(w.bytes)
			})
		})
	}
}

// BenchmarkListOverTLS does the same over a socket with HTTP/2.
func BenchmarkListOverTLS(b *testing.B) {
	d := openServer(b, nil)
	target := kinds.Target{Namespace: "default"}
	target.Resource, _ = builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for i := range 10_000 {
		write(b, d.reg, target, fmt.Sprintf("cm-%05d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := d.h2.Do(d.request("GET", configMaps+"?resourceVersion=0", ""))
		if err != nil {
			b.Fatalf("do h2: %v", err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil {
			b.Fatalf("copy: %v", err)
		}
		_ = resp.Body.Close()
		b.SetBytes(n)
	}
}

// BenchmarkFanOut delivers one event to 1000 watchers per iteration, through the
// handler without sockets.
func BenchmarkFanOut(b *testing.B) {
	for _, c := range []struct {
		name    string
		headers []string
	}{
		{"json", nil},
		{"protobuf", []string{protobufAccepted}},
		{"metadata", []string{"Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}},
		{"table", []string{acceptTable}},
	} {
		b.Run(c.name, func(b *testing.B) { fanOut(b, c.headers) })
	}
}

// BenchmarkState streams the state of 10 000 objects to a watch.
func BenchmarkState(b *testing.B) {
	h, _, _ := loaded(b, 10_000)
	for _, c := range []struct{ name, accept string }{{"json", acceptJSON}, {"protobuf", protobufAccepted}} {
		b.Run(c.name, func(b *testing.B) {
			loop(b, func() {
				w := &sink{header: http.Header{}}
				ctx, cancel := context.WithCancel(b.Context())
				w.lines = func(p []byte) {
					if bytes.Contains(p, []byte("initial-events-end")) {
						cancel()
					}
				}
				r := get(b,
					configMaps+"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
					c.accept)
				h.ServeHTTP(w, r.WithContext(ctx))
				b.SetBytes(w.bytes)
			})
		})
	}
}

func fanOut(b *testing.B, headers []string) {
	const watchers = 1000
	h, reg, target := loaded(b, 0)
	var open, got, ended sync.WaitGroup
	for range watchers {
		open.Add(1)
		first := true
		w := &sink{header: http.Header{}, lines: func([]byte) {
			if first {
				first = false
				open.Done()
				return
			}
			got.Done()
		}}
		r := get(b, configMaps+"?watch=1", headers...)
		ended.Go(func() { h.ServeHTTP(w, r) }) // ends with the benchmark's context
	}
	write(b, reg, target, "first")
	open.Wait()
	n := 0
	loop(b, func() {
		got.Add(watchers)
		n++
		write(b, reg, target, fmt.Sprintf("cm-%07d", n))
		got.Wait()
	})
	b.Cleanup(ended.Wait)
}
