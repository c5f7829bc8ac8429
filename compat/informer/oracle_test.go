package informer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// reference is upstream's API server in a process of its own, behind a proxy whose
// address stays when the server is restarted.
type reference struct {
	program, dir string
	front        *httptest.Server

	// mu guards what a restart and a cut replace.
	mu    sync.Mutex
	back  *backend
	cut   bool
	media map[string]int // Content-Type of good answers
}

// backend is one process.
type backend struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	CA    string `json:"ca"`

	cmd       *exec.Cmd
	stdin     io.Closer
	transport *http.Transport
	target    *url.URL
}

func startReference(t *testing.T) *reference {
	t.Helper()
	program, err := harness.Build(t.Context(), t.TempDir(), filepath.Join(harness.Root(), "conformance", "oracle"), "cmd/oracle")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	r := &reference{program: program, dir: t.TempDir(), media: map[string]int{}}
	r.back = r.start(t)
	r.front = httptest.NewServer(r)
	t.Cleanup(func() {
		r.front.CloseClientConnections()
		r.front.Close()
		r.back.stop(t)
	})
	return r
}

func (r *reference) start(t *testing.T) *backend {
	t.Helper()
	b := &backend{
		cmd: exec.CommandContext(context.WithoutCancel(t.Context()), r.program, "--no-sync", "--data-dir",
			filepath.Join(r.dir, "etcd")),
	}
	b.cmd.Stderr = os.Stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatalf("stdin pipe: %v", err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	b.stdin = in
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the reference server said %q, %v", line, err)
	}
	if err := json.Unmarshal(line, b); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.CA)) {
		t.Fatal("no CA")
	}
	b.transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	if b.target, err = url.Parse(b.URL); err != nil {
		t.Fatalf("parse an address: %v", err)
	}
	return b
}

func (b *backend) stop(t *testing.T) {
	t.Helper()
	b.transport.CloseIdleConnections()
	if err := b.stdin.Close(); err != nil {
		t.Errorf("close stdin: %v", err)
	}
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("the reference server: %v", err)
	}
}

// now returns the server that runs, nil if clients are cut off from it.
func (r *reference) now() *backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return nil
	}
	return r.back
}

// ServeHTTP passes requests on, also while the server restarts: then they fail.
func (r *reference) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	b := r.now()
	if b == nil {
		panic(http.ErrAbortHandler)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(b.target)
			p.Out.Header.Set("Authorization", "Bearer "+b.Token)
		},
		Transport: b.transport, FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if answer.StatusCode == http.StatusOK {
				r.media[answer.Header.Get("Content-Type")]++
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy.ServeHTTP(rw, req)
}

// disconnect ends all connections of clients and refuses new ones until f is over.
func (r *reference) disconnect(f func()) {
	set := func(cut bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cut = cut
	}
	set(true)
	r.front.CloseClientConnections()
	f()
	set(false)
}

// restart forgets what the watch cache remembers.
func (r *reference) restart(t *testing.T) {
	t.Helper()
	r.back.stop(t)
	next := r.start(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = next
}

// seen returns the media types of the good answers until now, and forgets them.
func (r *reference) seen() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	media := r.media
	r.media = map[string]int{}
	return media
}

// send writes past the proxy.
func (r *reference) send(t *testing.T, method, path, body string) {
	t.Helper()
	if code, answer := r.try(t, method, path, body); code/100 != 2 {
		t.Fatalf("%s %s: %d\n%s", method, path, code, bytes.TrimSpace(answer))
	}
}

// try is send for a request that may be refused.
func (r *reference) try(t *testing.T, method, path, body string) (code int, answer []byte) {
	t.Helper()
	r.mu.Lock()
	b := r.back
	r.mu.Unlock()
	req, err := http.NewRequestWithContext(t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+b.Token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("round trip: %v", err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatalf("read to the end: %v", err)
	}
	return resp.StatusCode, answer
}
