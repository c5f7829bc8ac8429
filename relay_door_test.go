package gapless_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// atRelay is a relay and how to reach it.
type atRelay struct {
	*gapless.Relay

	roots *x509.CertPool
}

// relayTo starts a relay in front of an upstream.
func relayTo(t *testing.T, u *relaytest.Upstream, cfg gapless.RelayConfig) atRelay {
	t.Helper()
	cfg.Upstream, cfg.Memory = u.Relay(t), true
	cfg.Upstream.CAData = u.RESTConfig().CAData
	r := startRelay(t, cfg)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.CA())
	return atRelay{r, roots}
}

// client returns a client with connections of its own.
func (r atRelay) client(t *testing.T, proto string, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.roots, Certificates: certificates},
		ForceAttemptHTTP2: proto == "HTTP/2",
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// dial opens a connection, which ends with the test.
func (r atRelay) dial(t *testing.T, protocol string) (*tls.Conn, error) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.roots, NextProtos: []string{protocol}}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(), "https://"))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*tls.Conn), nil
}

// tokenClient is a client with connections of its own and a token.
type tokenClient struct {
	*http.Client

	url, token string
}

// as returns a client with a token, "": nobody.
func (r atRelay) as(t *testing.T, proto, token string) tokenClient {
	t.Helper()
	return tokenClient{r.client(t, proto), r.URL(), token}
}

// send sends a request ("GET /…") with headers, in pairs of name and value.
func (c tokenClient) send(t *testing.T, request string, body io.Reader, headers ...string) (*http.Response, error) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, body)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return c.Do(req)
}

// do is send for a request whose answer is short.
func (c tokenClient) do(t *testing.T, request, body string, headers ...string) (code int, answer string) {
	t.Helper()
	resp, err := c.send(t, request, strings.NewReader(body), headers...)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return resp.StatusCode, string(text)
}

// waitFor waits until the relay's metrics have a line with a beginning, other than 0.
func (r atRelay) waitFor(t *testing.T, line string) {
	t.Helper()
	waitUntil(t, func() error {
		_, metrics := r.as(t, "HTTP/1.1", "token-root").do(t, "GET /metrics", "")
		for have := range strings.Lines(metrics) {
			if value, is := strings.CutPrefix(strings.TrimSpace(have), line+" "); is && value != "0" {
				return nil
			}
		}
		return fmt.Errorf("the metrics do not have %s", line)
	})
}

// TestEachLimitHoldsForARelay goes beyond each of them.
func TestEachLimitHoldsForARelay(t *testing.T) {
	u := relaytest.New(t)
	idle := func(t *testing.T, r atRelay) { // more than each limit
		first, err := r.dial(t, "h2")
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		for range 12 {
			_, _ = r.dial(t, "h2") // may be closed at once
		}
		_ = first.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, first); errors.Is(err, net.ErrClosed) || isTimeout(err) {
			t.Errorf("the oldest connection stays open: %v", err)
		}
	}
	refused := func(reason string) string { return `gapless_refused_total{reason="` + reason + `"}` }
	for name, c := range map[string]struct {
		limits gapless.Limits
		beyond func(t *testing.T, r atRelay)
		metric string
	}{
		"connections":             {gapless.Limits{Connections: 8, ConnectionsPerAddress: 100}, idle, refused("connections")},
		"connections per address": {gapless.Limits{ConnectionsPerAddress: 8}, idle, refused("address_connections")},
		"anonymous connections":   {gapless.Limits{AnonymousConnections: 8}, idle, refused("anonymous_connections")},
		"streams":                 {gapless.Limits{StreamsPerConnection: 7}, wantStreams, ""},
		"requests without a known caller": {gapless.Limits{ResetsPerMinute: 5}, func(t *testing.T, r atRelay) {
			c := r.as(t, "HTTP/2", "none")
			for range 8 { // the connection is closed behind some of them
				if resp, err := c.send(t, "GET /api/v1/namespaces/shop/secrets/a", nil); err == nil {
					_ = resp.Body.Close()
				}
			}
		}, refused("anonymous_requests")},
		"resets": {gapless.Limits{ResetsPerMinute: 5}, func(t *testing.T, r atRelay) {
			c := r.client(t, "HTTP/2", u.Certificate(t, "jane"))
			for range 8 {
				from, to := io.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPut, r.URL()+"/api/v1/namespaces/shop/configmaps/a", from)
				if err != nil {
					t.Fatalf("make a request: %v", err)
				}
				go func() { // ends with the body
					_, _ = io.WriteString(to, "{")
					cancel() // upstream waits for more
				}()
				if resp, err := c.Do(req); err == nil {
					_ = resp.Body.Close()
				}
				_ = to.Close()
			}
		}, refused("resets")},
		"reads": {
			gapless.Limits{RequestsInFlight: 17},
			func(*testing.T, atRelay) {},
			`apiserver_flowcontrol_nominal_limit_seats{priority_level="read"} 17`,
		},
		"changes": {gapless.Limits{MutatingRequestsInFlight: 1}, func(t *testing.T, r atRelay) {
			from, to := io.Pipe()
			defer func() { _ = to.Close() }()
			go func() { _, _ = io.WriteString(to, "{") }() // ends with the body
			go func() {                                    // ends with the body
				if resp, err := r.as(t, "HTTP/2", "token-jane").send(t, "PUT /api/v1/namespaces/shop/configmaps/a",
					from); err == nil {
					_ = resp.Body.Close()
				}
			}()
			r.waitFor(t, `apiserver_flowcontrol_current_executing_seats{priority_level="write"}`) // it has its place
			if code, answer := r.as(t, "HTTP/2", "token-jane").do(t, "DELETE /api/v1/namespaces/shop/configmaps/none",
				""); code != http.StatusTooManyRequests {
				t.Errorf("a change beyond the limit is answered %d %s", code, answer)
			}
		}, refused("in_flight")},
		"watches": {gapless.Limits{Watches: 1}, func(t *testing.T, r atRelay) {
			const watch = "GET /api/v1/namespaces/shop/secrets?watch=1" // is passed on
			resp, err := r.as(t, "HTTP/2", "token-root").send(t, watch, nil)
			if err != nil {
				t.Fatalf("send as: %v", err)
			}
			defer func() { _ = resp.Body.Close() }()
			if code, answer := r.as(t, "HTTP/2", "token-root").do(t, watch, ""); code != http.StatusTooManyRequests ||
				resp.StatusCode != http.StatusOK {
				t.Errorf("the watches are answered %d and %d %s", resp.StatusCode, code, answer)
			}
		}, refused("watches")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := relayTo(t, u, gapless.RelayConfig{Limits: c.limits})
			c.beyond(t, r)
			if c.metric != "" {
				line, value, _ := strings.Cut(c.metric, "} ")
				if value == "" {
					line = strings.TrimSuffix(line, "}")
				}
				r.waitFor(t, line+"}")
			}
		})
	}
}

func isTimeout(err error) bool {
	timeout, is := errors.AsType[net.Error](err)
	return is && timeout.Timeout()
}

// wantStreams reads how many streams a connection may have: RFC 9113, SETTINGS_MAX_CONCURRENT_STREAMS.
func wantStreams(t *testing.T, r atRelay) {
	conn, err := r.dial(t, "h2")
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatalf("write: %v", err)
	}
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil {
		t.Fatalf("read: %v", err)
	}
	settings := make([]byte, binary.BigEndian.Uint32(head)>>8)
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatalf("read: %v", err)
	}
	if !bytes.Contains(settings, []byte{0, 3, 0, 0, 0, 7}) {
		t.Errorf("the settings are %x, want 7 streams", settings)
	}
}

// TestALargeBodyOfATokenIsNotSlow sends one first on a connection: its caller is known only by the answer.
func TestALargeBodyOfATokenIsNotSlow(t *testing.T) {
	u := relaytest.New(t)
	r := relayTo(t, u, gapless.RelayConfig{})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		c := r.as(t, proto, "token-jane")
		c.Timeout = 30 * time.Second // at the rate of an unknown connection it would take minutes
		name := strings.ToLower(strings.NewReplacer("/", "-", ".", "-").Replace(proto))
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"x":%q}}`,
			name, strings.Repeat("x", 900_000))
		code, answer := c.do(t, "POST /api/v1/namespaces/shop/configmaps", body, "User-Agent", "", "Content-Type",
			"application/json")
		var made metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(answer), &made); err != nil || code != http.StatusCreated {
			t.Fatalf("%s: %d %.200s", proto, code, answer)
		}
		if fields := made.ManagedFields; len(fields) != 1 || fields[0].Manager != "unknown" {
			t.Errorf("%s: the managers of what a client without User-Agent writes are %+v", proto, fields)
		}
	}
}

// TestWhatNobodyMayReadIsUpstreamsToSay compares with upstream what is read without credentials.
func TestWhatNobodyMayReadIsUpstreamsToSay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	u := gaplesstest.New(t, gaplesstest.Config(func(c *gapless.Config) { c.Authentication.Anonymous = true }))
	u.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: public, namespace: shop}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: public, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: public}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:anonymous"}]
`)
	for mode, access := range map[string]gapless.RelayAccess{"reviews": {}, "passthrough": {Passthrough: true}} {
		r := atRelay{
			Relay: startRelay(t, gapless.RelayConfig{Upstream: u.RESTConfig(), Memory: true, Access: access}),
			roots: x509.NewCertPool(),
		}
		r.roots.AppendCertsFromPEM(r.CA())
		r.roots.AppendCertsFromPEM(u.RESTConfig().CAData)
		direct := r.client(t, "HTTP/2")
		for request, want := range map[string]int{
			"GET /api/v1/namespaces/shop/configmaps":                           http.StatusOK,
			"GET /api/v1/namespaces/shop/configmaps?watch=1&timeoutSeconds=1":  http.StatusOK,
			"GET /api/v1/namespaces/shop/configmaps?resourceVersion=0&limit=1": http.StatusOK,
			"GET /api/v1/configmaps":                                           http.StatusForbidden,
			"GET /api/v1/namespaces/shop/secrets":                              http.StatusForbidden,
			"GET /api/v1/namespaces/default/configmaps?watch=1":                http.StatusForbidden,
		} {
			code, answer := r.as(t, "HTTP/2", "").do(t, request, "")
			method, path, _ := strings.Cut(request, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, u.URL()+path, nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			resp, err := direct.Do(req)
			if err != nil {
				t.Fatalf("do direct: %v", err)
			}
			_ = resp.Body.Close()
			if code != want || resp.StatusCode != want {
				t.Errorf("%s: %s: %d %s, and directly %d, want %d", mode, request, code, answer, resp.StatusCode, want)
			}
		}
		// Nobody's token is not nobody.
		if code, answer := r.as(t, "HTTP/2", "none").do(t, "GET /api/v1/namespaces/shop/configmaps", ""); code == http.StatusOK {
			t.Errorf("%s: a token of nobody is answered %d %s", mode, code, answer)
		}
	}
}

// TestARelayStopsWithWatchesOpen has watches that are passed on and one of the mirror.
func TestARelayStopsWithWatchesOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	u := relaytest.New(t)
	u.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: shop}}")
	cfg := gapless.RelayConfig{
		Upstream: u.RESTConfig(), Memory: true, Listen: "127.0.0.1:0", Access: gapless.RelayAccess{Passthrough: true},
	}
	relay, err := gapless.NewRelay(cfg)
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }() // ends with stop
	select {
	case <-relay.Ready():
	case err := <-ended:
		t.Fatalf("wait for the end: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(relay.CA())
	r := atRelay{relay, roots}
	type end struct {
		path, rest string
		err        error
		took       time.Duration
	}
	ends := make(chan end, 8)
	stopped := make(chan struct{})
	var began time.Time
	open := 0
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, path := range []string{
			"/api/v1/namespaces/shop/secrets?watch=1", "/apis/apps/v1/deployments?watch=1",
			"/api/v1/namespaces/shop/configmaps?watch=1",
		} {
			resp, err := r.as(t, proto, "token-root").send(t, "GET "+path, nil)
			if err != nil {
				t.Fatal(path, err)
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != http.StatusOK {
				t.Fatal(path, resp.Status)
			}
			open++
			go func() { // ends with the relay
				<-stopped
				rest, err := io.ReadAll(resp.Body)
				ends <- end{proto + " " + path, string(rest), err, time.Since(began)}
			}()
		}
	}
	began = time.Now()
	stop()
	close(stopped)
	for range open {
		e := <-ends
		if e.err != nil || e.rest != "" && !strings.HasSuffix(e.rest, "}\n") {
			t.Errorf("%s ends with %q, %v", e.path, e.rest, e.err)
		}
		t.Logf("%s: after %s", e.path, e.took)
	}
	if err := <-ended; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
	// Far below drainWithin, and above the second that net/http gives clients of HTTP/2.
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the relay needed %s to stop", took)
	} else {
		t.Logf("the relay has stopped after %s", took)
	}
}
