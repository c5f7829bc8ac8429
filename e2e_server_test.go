package gapless_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless"
)

// launched is a whole server that runs inside a test, with real sockets.
type launched struct {
	*gapless.Server

	t      testing.TB
	cancel context.CancelFunc
	ended  chan error
	over   bool
}

// launch runs a server until the test ends or stop is called. Where the
// configuration names no directory everything is in memory.
func launch(t testing.TB, cfg gapless.Config) *launched {
	t.Helper()
	cfg.Memory = cfg.Memory || cfg.DataDir == ""
	cfg.Listen = "127.0.0.1:0"
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &launched{Server: s, t: t, cancel: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- s.Run(ctx) }() // ends with ctx
	t.Cleanup(l.stop)
	select {
	case <-s.Ready():
	case err := <-l.ended:
		l.over = true
		t.Fatalf("the server has ended: %v", err)
	}
	return l
}

// stop drains the server and waits for its end.
func (l *launched) stop() {
	if l.over {
		return
	}
	l.over = true
	l.cancel()
	if err := <-l.ended; err != nil {
		l.t.Errorf("run: %v", err)
	}
}

// wire is a protocol that clients speak.
type wire string

const (
	http1 wire = "HTTP/1.1"
	http2 wire = "HTTP/2.0"
)

// caller is the administrator, speaking one protocol. It keeps no connection
// when the test is over.
type caller struct {
	t    testing.TB
	base string
	http *http.Client
	wire wire
}

// tlsConfig is the administrator's; every call returns a new one.
func (l *launched) tlsConfig() *tls.Config {
	l.t.Helper()
	cfg := l.RESTConfig()
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		l.t.Fatalf("administrator's certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CAData)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

func (l *launched) caller(t testing.TB, w wire) *caller {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(w == http1)
	protocols.SetHTTP2(w == http2)
	var lines connections
	transport := &http.Transport{TLSClientConfig: l.tlsConfig(), Protocols: protocols, DisableCompression: true, DialContext: lines.dial}
	t.Cleanup(lines.close)
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, base: l.URL(), http: &http.Client{Transport: transport}, wire: w}
}

// connections closes what it dialed: a server that drains waits a second for a
// client of HTTP/2 that is still there.
type connections struct {
	// mu guards open.
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	return conn, nil
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close() // most are closed already
	}
}

// reply is a whole answer.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

// send makes a request; headers are "Name: value". The caller closes the body.
func (c *caller) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if got := wire(resp.Proto); got != c.wire {
		return nil, errors.Join(fmt.Errorf("%s was answered by %s", c.wire, got), resp.Body.Close())
	}
	return resp, nil
}

// try makes a request and reads the whole answer.
func (c *caller) try(ctx context.Context, method, path, body string, headers ...string) (reply, error) {
	resp, err := c.send(ctx, method, path, body, headers...)
	if err != nil {
		return reply{}, err
	}
	whole, err := io.ReadAll(resp.Body)
	return reply{code: resp.StatusCode, header: resp.Header, body: whole}, errors.Join(err, resp.Body.Close())
}

// do is try for the test's own goroutine.
func (c *caller) do(method, path, body string, headers ...string) reply {
	c.t.Helper()
	r, err := c.try(c.t.Context(), method, path, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// must is do for a request that has to be answered with code.
func (c *caller) must(code int, method, path, body string, headers ...string) tree {
	c.t.Helper()
	r := c.do(method, path, body, headers...)
	if r.code != code {
		c.t.Fatalf("%s %s gives %d, want %d: %s", method, path, r.code, code, r.body)
	}
	return r.tree(c.t)
}

// tree is decoded JSON.
type tree map[string]any

func (r reply) decode() (tree, error) {
	var x tree
	if err := json.Unmarshal(r.body, &x); err != nil {
		return nil, fmt.Errorf("answer %d is not JSON: %w: %.300q", r.code, err, r.body)
	}
	return x, nil
}

// tree is decode for the test's own goroutine.
func (r reply) tree(t testing.TB) tree {
	t.Helper()
	x, err := r.decode()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// at returns what is at a path of names and indices, nil if there is nothing.
func (x tree) at(path ...string) any {
	var here any = map[string]any(x)
	for _, name := range path {
		switch v := here.(type) {
		case map[string]any:
			here = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			here = v[i]
		default:
			return nil
		}
	}
	return here
}

// text is at for a string.
func (x tree) text(path ...string) string {
	s, _ := x.at(path...).(string)
	return s
}

func (x tree) rv() string { return x.text("metadata", "resourceVersion") }

// keys are the items of a list as "namespace/name", in their order.
func (x tree) keys() string {
	var keys []string
	items, _ := x.at("items").([]any)
	for _, item := range items {
		o, _ := item.(map[string]any)
		keys = append(keys, tree(o).key())
	}
	return strings.Join(keys, " ")
}

func (x tree) key() string {
	return strings.TrimPrefix(x.text("metadata", "namespace")+"/"+x.text("metadata", "name"), "/")
}

// stream is one watch.
type stream struct {
	t     testing.TB
	body  io.Closer
	lines *bufio.Reader
}

// frame is one line of a watch.
type frame struct {
	kind   string
	object tree
}

// String is "ADDED default/a@17", "BOOKMARK@17", "END@17" for the bookmark after
// the initial events, or "ERROR 410 Expired".
func (f frame) String() string {
	switch {
	case f.kind == "ERROR":
		return fmt.Sprintf("ERROR %v %s", f.object.at("code"), f.object.text("reason"))
	case f.kind != "BOOKMARK":
		return f.kind + " " + f.object.key() + "@" + f.object.rv()
	case f.object.text("metadata", "annotations", "k8s.io/initial-events-end") == "true":
		return "END@" + f.object.rv()
	}
	return "BOOKMARK@" + f.object.rv()
}

func words(frames []frame) string {
	var words []string
	for _, f := range frames {
		words = append(words, f.String())
	}
	return strings.Join(words, ", ")
}

// watch opens a watch, which must be answered with 200; path has its query.
func (c *caller) watch(path string, headers ...string) *stream {
	c.t.Helper()
	s, err := c.follow(c.t.Context(), path, headers...)
	if err != nil {
		c.t.Fatalf("watch %s: %v", path, err)
	}
	s.t = c.t
	c.t.Cleanup(s.close)
	return s
}

func (c *caller) follow(ctx context.Context, path string, headers ...string) (*stream, error) {
	resp, err := c.send(ctx, http.MethodGet, path, "", headers...)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		body, _ := io.ReadAll(resp.Body)
		return nil, errors.Join(fmt.Errorf("status %d, type %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body), resp.Body.Close())
	}
	return &stream{body: resp.Body, lines: bufio.NewReader(resp.Body)}, nil
}

func (s *stream) close() { _ = s.body.Close() } // the rest of the stream is of no interest

// read returns the next frame; io.EOF at the clean end.
func (s *stream) read() (frame, error) {
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		if len(line) > 0 {
			return frame{}, fmt.Errorf("half a frame %q: %w", line, err)
		}
		return frame{}, err
	}
	var f struct {
		Type   string
		Object tree
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return frame{}, fmt.Errorf("frame %q: %w", line, err)
	}
	return frame{kind: f.Type, object: f.Object}, nil
}

func (s *stream) next() frame {
	s.t.Helper()
	f, err := s.read()
	if err != nil {
		s.t.Fatalf("next frame: %v", err)
	}
	return f
}

// take returns the next n frames in words.
func (s *stream) take(n int) string {
	s.t.Helper()
	var frames []frame
	for range n {
		frames = append(frames, s.next())
	}
	return words(frames)
}

// rest returns all frames up to the clean end.
func (s *stream) rest() ([]frame, error) {
	var frames []frame
	for {
		f, err := s.read()
		switch {
		case err == io.EOF: //nolint:errorlint // io.ErrUnexpectedEOF is no clean end
			return frames, nil
		case err != nil:
			return frames, fmt.Errorf("after %d frames: %w", len(frames), err)
		}
		frames = append(frames, f)
	}
}

// end requires the clean end of the stream after these frames.
func (s *stream) end(want string) {
	s.t.Helper()
	frames, err := s.rest()
	if err != nil {
		s.t.Fatal(err)
	}
	if got := words(frames); got != want {
		s.t.Errorf("the stream ends with %q, want %q", got, want)
	}
}

// number is a resourceVersion as a number.
func number(t testing.TB, rv string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion %q: %v", rv, err)
	}
	return n
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func configMapBody(name, x string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"x":%q}},"data":{"x":%q}}`, name, x, x)
}

// create creates a ConfigMap with label and data x.
func (c *caller) create(namespace, name, x string) tree {
	c.t.Helper()
	return c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps", configMapBody(name, x))
}

// relabel replaces it.
func (c *caller) relabel(namespace, name, x string) tree {
	c.t.Helper()
	return c.must(http.StatusOK, http.MethodPut, "/api/v1/namespaces/"+namespace+"/configmaps/"+name, configMapBody(name, x))
}

func (c *caller) remove(namespace, name string) {
	c.t.Helper()
	c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/"+namespace+"/configmaps/"+name, "")
}

func (c *caller) namespace(name string) {
	c.t.Helper()
	c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name))
}

// current is the resourceVersion of a consistent list.
func (c *caller) current() string {
	c.t.Helper()
	return c.must(http.StatusOK, http.MethodGet, configMaps, "").rv()
}
