package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a server over real TLS sockets, with the real verbs and a log in
// memory behind it.
type testServer struct {
	t     testing.TB
	api   *apiserver.Server
	reg   *registry.Registry
	url   string
	creds *auth.Credentials
	h1    *http.Client // with the administrator's certificate, HTTP/1.1
	h2    *http.Client // the same, HTTP/2
}

// openServer serves until the test ends; change may change the configuration.
func openServer(t testing.TB, change func(*apiserver.Config)) *testServer {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	return openServerOn(t, log, change)
}

// openServerOn is openServer with a log, which it runs and closes.
func openServerOn(t testing.TB, log *revlog.Log, change func(*apiserver.Config)) *testServer {
	t.Helper()
	live := kinds.NewLive(builtin.Catalog())
	return openServerOver(t, openRegistryOn(t, log, live), live, change)
}

// openServerOver is openServerOn for a registry, which several servers may have in common.
func openServerOver(t testing.TB, reg *registry.Registry, live *kinds.Live, change func(*apiserver.Config)) *testServer {
	t.Helper()
	d := &testServer{t: t, reg: reg}
	cfg := apiserver.Config{
		Reader: d.reg, Writer: d.reg, Live: live, Collectors: []prometheus.Collector{d.reg.Conversions()},
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2+gapless"},
	}
	if change != nil {
		change(&cfg)
	}
	d.api = apiserver.New(t.Context(), cfg)
	var err error
	if d.creds, err = auth.Open(t.TempDir(), auth.Options{}); err != nil {
		t.Fatalf("make credentials: %v", err)
	}
	d.url = serveTLS(t, d.api, d.creds.ServerTLS())
	cert, err := tls.X509KeyPair(d.creds.Admin())
	if err != nil {
		t.Fatalf("read the administrator's certificate: %v", err)
	}
	d.h1, d.h2 = d.client(1, cert), d.client(2, cert)
	return d
}

func openRegistry(t testing.TB, live *kinds.Live) *registry.Registry {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	return openRegistryOn(t, log, live)
}

func openRegistryOn(t testing.TB, log *revlog.Log, live *kinds.Live) *registry.Registry {
	t.Helper()
	return openRegistryWith(t, log, registry.Config{Store: log, Live: live})
}

func openRegistryWith(t testing.TB, log *revlog.Log, cfg registry.Config) *registry.Registry {
	t.Helper()
	reg := registry.New(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- log.Run(ctx) }() // ends with ctx
	go func() { ended <- reg.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended, log.Close()); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("end the registry: %v", err)
		}
	})
	if err := reg.WaitReady(t.Context()); err != nil {
		t.Fatalf("start the registry: %v", err)
	}
	return reg
}

func serveTLS(t testing.TB, h http.Handler, cfg *tls.Config) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	// A server changes its configuration, which another one may have too.
	srv := &http.Server{Handler: h, TLSConfig: cfg.Clone(), ReadHeaderTimeout: time.Minute}
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of connections
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeTLS(l, "", "") }() // ends with Close
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return "https://" + l.Addr().String()
}

// client returns a client of HTTP/1.1 or HTTP/2 that asks for nothing by itself.
func (d *testServer) client(protocol int, certs ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(d.creds.CA())
	tr := &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: roots, Certificates: certs, MinVersion: tls.VersionTLS12},
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	tr.Protocols.SetHTTP1(protocol == 1)
	tr.Protocols.SetHTTP2(protocol == 2)
	d.t.Cleanup(tr.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: tr, CheckRedirect: stay}
}

// answer is a whole answer.
type answer struct {
	*http.Response

	body string
}

// do sends a request by HTTP/2 and reads the whole answer. headers are "Name: value".
func (d *testServer) do(method, path, body string, headers ...string) answer {
	d.t.Helper()
	return d.by(d.h2, method, path, body, headers...)
}

func (d *testServer) by(c *http.Client, method, path, body string, headers ...string) answer {
	d.t.Helper()
	resp, err := c.Do(d.request(method, path, body, headers...))
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return answer{Response: resp, body: string(text)}
}

func (d *testServer) request(method, path, body string, headers ...string) *http.Request {
	d.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, content)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	r.Header.Set("User-Agent", "test/1")
	for _, h := range headers {
		if name, value, ok := strings.Cut(h, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	return r
}

// create posts a config map of the namespace default.
func (d *testServer) create(name, labels string) {
	d.t.Helper()
	body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `","labels":{` + labels +
		`}},"data":{"a":"<&>"}}`
	if a := d.do("POST", configMaps, body); a.StatusCode != http.StatusCreated {
		d.t.Fatalf("create %s: %d %s", name, a.StatusCode, a.body)
	}
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// tree decodes a body in JSON or protobuf.
func tree(t testing.TB, body string) map[string]any {
	t.Helper()
	if strings.HasPrefix(body, "k8s\x00") {
		return envelopeTree(t, []byte(body))
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %.200q: %v", body, err)
	}
	return v
}

// at reads one value of a tree.
func at(v any, path ...string) any {
	for _, name := range path {
		m, is := v.(map[string]any)
		if !is {
			return nil
		}
		v = m[name]
	}
	return v
}

// stream is a watch that is open.
type stream struct {
	t     testing.TB
	resp  *http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

// open sends a GET and returns once its headers are there.
func (d *testServer) open(c *http.Client, path string, headers ...string) *stream {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	resp, err := c.Do(d.request("GET", path, "", headers...).WithContext(ctx))
	if err != nil {
		cancel()
		d.t.Fatalf("GET %s: %v", path, err)
	}
	s := &stream{t: d.t, resp: resp, lines: bufio.NewScanner(resp.Body), stop: cancel}
	s.lines.Buffer(nil, 4<<20)
	d.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	return s
}

// next returns the next frame.
func (s *stream) next() map[string]any {
	s.t.Helper()
	if s.resp != nil && strings.HasPrefix(s.resp.Header.Get("Content-Type"), protobufType) {
		return readEvent(s.t, s.resp.Body)
	}
	if !s.lines.Scan() {
		s.t.Fatalf("the watch ended: %v", s.lines.Err())
	}
	return tree(s.t, s.lines.Text())
}

// say returns the next frame as "ADDED name" or "BOOKMARK".
func (s *stream) say() string {
	s.t.Helper()
	e := s.next()
	name, _ := at(e, "object", "metadata", "name").(string)
	return strings.TrimSpace(at(e, "type").(string) + " " + name)
}

// end fails unless the stream ends cleanly now.
func (s *stream) end() {
	s.t.Helper()
	if s.lines.Scan() {
		s.t.Errorf("frame after the end: %s", s.lines.Text())
	}
	if err := s.lines.Err(); err != nil {
		s.t.Errorf("the watch did not end cleanly: %v", err)
	}
}

// rvOf is the resourceVersion of a list's body or of an object.
func rvOf(t testing.TB, body string) string {
	t.Helper()
	rv, _ := at(tree(t, body), "metadata", "resourceVersion").(string)
	if _, err := kube.ParseResourceVersion(rv); err != nil || rv == "" {
		t.Fatalf("no resourceVersion in %.200s", body)
	}
	return rv
}
