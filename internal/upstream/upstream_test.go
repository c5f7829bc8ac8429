package upstream_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server with HTTP/2, and returns the configuration of a client.
func serve(t *testing.T, h http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func open(t *testing.T, cfg *rest.Config, within time.Duration) *upstream.Server {
	t.Helper()
	s, err := upstream.Open(cfg, within)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

func send(t *testing.T, s *upstream.Server, method string, headers ...string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL.String(), http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.RoundTrip(r)
}

func TestOnlyUpgradesNeedHTTP1(t *testing.T) {
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }), time.Minute)
	for want, headers := range map[string][]string{
		"HTTP/2.0": nil, "HTTP/1.1": {"Connection", "Upgrade", "Upgrade", "SPDY/3.1"},
	} {
		resp, err := send(t, s, "GET", headers...)
		if err != nil {
			t.Fatalf("send: %v", err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
			t.Errorf("%v: %s, %v", headers, got, err)
		}
		_ = resp.Body.Close()
	}
}

func TestCredentialsAreReadAgain(t *testing.T) {
	cfg := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["Authorization"]) })
	cfg.BearerTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(cfg.BearerTokenFile, []byte("first"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for s, want := range map[*upstream.Server]string{
		open(t, cfg, time.Minute):                             "[Bearer first]",
		open(t, rest.AnonymousClientConfig(cfg), time.Minute): "[]",
	} {
		resp, err := send(t, s, "GET")
		if err != nil {
			t.Fatalf("send: %v", err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		_ = resp.Body.Close()
	}
}

// TestAServerThatDoesNotAnswerIsSaid has one that takes connections and is silent.
func TestAServerThatDoesNotAnswerIsSaid(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = silent.Close() }()
	breaking := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, c := range map[string]struct {
		cfg     *rest.Config
		connect time.Duration
		sent    bool
		text    string
	}{
		"silent": {
			&rest.Config{Host: "https://" + silent.Addr().String()}, 50 * time.Millisecond, false,
			"cannot be reached: net/http: TLS handshake timeout",
		},
		"breaking": {breaking, time.Minute, true, "did not answer: "},
	} {
		resp, err := send(t, open(t, c.cfg, c.connect), "POST")
		if err == nil {
			_ = resp.Body.Close()
		}
		e, is := errors.AsType[*upstream.UnreachableError](err)
		if !is || e.Sent != c.sent || !strings.Contains(e.Error(), e.Host+" "+c.text) || !strings.HasSuffix(c.cfg.Host, e.Host) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAConfigurationThatIsWrongIsRefused(t *testing.T) {
	for name, cfg := range map[string]*rest.Config{
		"no URL":         {Host: "http://a b"},
		"no CA":          {Host: "https://127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}},
		"no certificate": {Host: "https://127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CertFile: "/none", KeyFile: "/none"}},
	} {
		if _, err := upstream.Open(cfg, time.Second); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// TestAnAnswerEndsBeforeTheBody has a client over HTTP/2 that sends a part of a body, and no more before
// it has the answer, in front of servers of both protocols.
func TestAnAnswerEndsBeforeTheBody(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
			t.Errorf("answer before the end of the body: %v", err)
		}
		_, _ = io.ReadFull(r.Body, make([]byte, 4))
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "no")
	})
	plain := httptest.NewServer(answer)
	defer plain.Close()
	for name, server := range map[string]*rest.Config{"HTTP/1.1": {Host: plain.URL}, "HTTP/2": serve(t, answer)} {
		t.Run(name, func(t *testing.T) { endsBeforeTheBody(t, open(t, server, time.Minute)) })
	}
}

func endsBeforeTheBody(t *testing.T, s *upstream.Server) {
	t.Helper()
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Pass(w, r, upstream.Exchange{
			Failed: func(_ http.ResponseWriter, _ *http.Request, err error) { t.Errorf("pass the request: %v", err) },
			Logger: slog.New(slog.DiscardHandler),
		})
	}))
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()
	from, to := io.Pipe()
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.WriteString(to, "part") }() // ends when it is read
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, front.URL, from)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := front.Client().Do(r)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "no" || resp.StatusCode != http.StatusConflict ||
		resp.ProtoMajor != 2 {
		t.Errorf("%s: %d %q %v", resp.Proto, resp.StatusCode, got, err)
	}
}
