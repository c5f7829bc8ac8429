package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Front is an address that stays the same while the server behind it is started again. What
// comes to gapless is forwarded byte for byte. Before the reference server, which has no document
// at /apis because a whole kube-apiserver aggregates it, requests are forwarded, and that document
// is answered. Cut it when it is no longer used.
type Front struct {
	Address string
	ca      []byte // PEM: of its certificate; nil: the certificate is the server's own

	tls    *tls.Config // nil: bytes are forwarded
	joined sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	listener net.Listener // nil: connections are refused
	web      *http.Server
	conns    map[net.Conn]struct{}
}

// NewFront listens, and forwards to a server. It has files in dir.
func NewFront(ctx context.Context, s *Server, dir string) (*Front, error) {
	f := &Front{Address: "127.0.0.1:0", conns: map[net.Conn]struct{}{}}
	if s.Name == Upstream {
		own, err := NewCertificates(dir)
		if err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
		if err != nil {
			return nil, fmt.Errorf("read a certificate: %w", err)
		}
		f.ca, f.tls = own.ca, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	return f, f.Point(ctx, s)
}

// Point forwards to a server from now on.
func (f *Front) Point(ctx context.Context, s *Server) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listener, f.Address = listener, listener.Addr().String()
	if f.tls == nil {
		f.joined.Go(func() { f.accept(ctx, listener, s.Target.Address) }) // ends with Cut
		return nil
	}
	transport := &http.Transport{TLSClientConfig: s.Target.TLS.Clone(), ForceAttemptHTTP2: true}
	f.web = &http.Server{
		Handler: discovering(s.Target.Address, transport), TLSConfig: f.tls.Clone(), ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	web := f.web
	f.joined.Go(func() { // as above
		_ = web.ServeTLS(listener, "", "") // it ends with an error always
		transport.CloseIdleConnections()
	})
	return nil
}

// discovery is what the reference server of benchmarks serves.
const discovery = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},` +
	`"items":[{"metadata":{"name":"bench.gapless.io"},
"versions":[{"version":"v1","freshness":"Current","resources":[{"resource":"benches","responseKind":{"group":"bench.gapless.io","version":"v1","kind":"Bench"},
"scope":"Namespaced","singularResource":"bench","verbs":["create","delete","get","list","patch","update","watch"]}]}]}]}`

// discovering forwards requests, and answers /apis.
func discovering(to string, transport http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "https", Host: to}) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis" {
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
			_, _ = io.WriteString(w, discovery) // the client may be gone
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// Target returns the server behind the front as clients see it, whose credentials are good over a
// restart.
func (f *Front) Target(s *Server) (wire.Target, error) {
	as := s.Credentials
	if f.ca != nil { // the front has the server's credentials
		as.CA, as.Token = f.ca, ""
	}
	return as.target(f.Address)
}

// Cut refuses connections from now on, breaks those that are open, and waits for them.
func (f *Front) Cut() {
	f.mu.Lock()
	if f.web != nil {
		_ = f.web.Close() // nothing is lost
	}
	if f.listener != nil {
		_ = f.listener.Close() // as above
	}
	f.web, f.listener = nil, nil
	for conn := range f.conns {
		_ = conn.Close() // it is to break
	}
	f.mu.Unlock()
	f.joined.Wait()
}

func (f *Front) accept(ctx context.Context, listener net.Listener, to string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // it was closed
		}
		f.joined.Go(func() { f.forward(ctx, conn, to) }) // ends with the connection
	}
}

func (f *Front) forward(ctx context.Context, conn net.Conn, to string) {
	defer func() { _ = conn.Close() }() // nothing is left to say
	other, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return // the caller sees a connection that ends
	}
	defer func() { _ = other.Close() }() // as above
	f.mu.Lock()
	cut := f.listener == nil
	f.conns[conn], f.conns[other] = struct{}{}, struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, conn)
		delete(f.conns, other)
	}()
	if cut {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, other) // its end is all that counts
		_ = conn.Close()
	})
	_, _ = io.Copy(other, conn) // as above
	_ = other.Close()
	back.Wait()
}
