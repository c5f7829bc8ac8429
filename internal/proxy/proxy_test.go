package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inFront starts a proxy in front of a server, and returns the configuration of a client of it.
func inFront(t *testing.T, h http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	p, err := proxy.New(proxy.Config{
		Upstream: server.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Listen: "127.0.0.1:0", Dir: dir, Faults: fault.New(1), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("make a proxy: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- p.Run(ctx, func(url, _ string) { address <- url }) }() // ends with the test
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	select {
	case url := <-address:
		return &rest.Config{
			Host: url, BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "pki", "ca.crt")},
		}
	case err := <-ended:
		ended <- nil
		t.Fatalf("wait for the end: %v", err)
		return nil
	}
}

// TestAWriteWhoseAnswerIsLostIsSentOnce has a client that repeats what is answered with Retry-After.
func TestAWriteWhoseAnswerIsLostIsSentOnce(t *testing.T) {
	var taken atomic.Int64
	cfg := inFront(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		taken.Add(1)
		panic(http.ErrAbortHandler)
	})
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	defer client.CloseIdleConnections()
	maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("default")
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "may have been carried out") {
		t.Errorf("%v, want 503 that says that it may have been carried out", err)
	}
	if n := taken.Load(); n != 1 {
		t.Errorf("it was sent %d times, want once", n)
	}
}

// TestABrokenBodyIsTheClientsError has a client whose chunks are none.
func TestABrokenBodyIsTheClientsError(t *testing.T) {
	cfg := inFront(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn,
		"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\nnone\r\n")
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read response: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(body), "invalid byte in chunk length") {
		t.Errorf("it is answered %d %s, %v", resp.StatusCode, body, err)
	}
}
