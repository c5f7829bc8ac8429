package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/proxy"
)

// inFront runs a proxy until the test ends, and returns what its kubeconfig says.
func inFront(t testing.TB, cfg proxy.Config) *rest.Config {
	t.Helper()
	cfg.Listen, cfg.Dir, cfg.Logger = "127.0.0.1:0", filepath.Join(t.TempDir(), "proxy"), slog.New(slog.DiscardHandler)
	p, err := proxy.New(cfg)
	if err != nil {
		t.Fatalf("make a proxy: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() { ended <- p.Run(ctx, func(_, kubeconfig string) { ready <- kubeconfig }) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("proxy: %v", err)
		}
	})
	select {
	case path := <-ready:
		out, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatalf("read the kubeconfig: %v", err)
		}
		return out
	case err := <-ended:
		ended <- nil
		t.Fatalf("proxy: %v", err)
		return nil
	}
}

func TestProxyAppliesRulesInFrontOfAServer(t *testing.T) {
	s := launch(t, func(c *gapless.Config) { c.Faults = nil })
	of := configMaps(t, s)
	faults := fault.New(1)
	cfg := inFront(t, proxy.Config{User: s.RESTConfig(), Faults: faults})
	const normal = "ADDED a,ADDED b,BOOKMARK"
	for _, w := range []way{http1, http2, protobuf, socket} {
		for want, action := range map[string]fault.Action{
			"410":                     &fault.Gone{},
			"ADDED a,end":             &fault.ShortWatch{Frames: 1},
			"ADDED a,broken":          &fault.Cut{Frames: 1, How: "mid-frame"},
			normal + ",500":           &fault.InternalError{Frames: 3},
			"BOOKMARK," + normal:      &fault.EarlyBookmark{},
			"ADDED a,ADDED a,ADDED b": &fault.Duplicate{},
		} {
			if err := faults.Add(fault.Rule{Match: fault.Match{Verbs: []string{"watch"}}, Action: action}); err != nil {
				t.Fatalf("add the rule: %v", err)
			}
			most := all
			if !strings.ContainsAny(want, "0e") {
				most = strings.Count(want, ",") + 1
			}
			if got := followAt(t, cfg, of, w, most); got != want {
				t.Errorf("%s: %s, want %s", w, got, want)
			}
			faults.Clear()
			if got := followAt(t, cfg, of, w, 3); got != normal {
				t.Errorf("%s: after the removal: %s", w, got)
			}
		}
	}
}

func TestProxyThatActsAsAUserNeedsItsOwnCertificate(t *testing.T) {
	s := launch(t, func(c *gapless.Config) { c.Faults = nil })
	cfg := inFront(t, proxy.Config{User: s.RESTConfig(), Faults: fault.New(1)})
	stranger := &rest.Config{Host: cfg.Host, TLSClientConfig: rest.TLSClientConfig{CAData: cfg.CAData}, BearerToken: "guess"}
	for _, path := range []string{"/api/v1/namespaces", fault.AdminPath, fault.AdminPath + "/x"} {
		if got := outcome(do(t, clientOf(t, stranger, http2), client.Request{Path: path})); got != "401" {
			t.Errorf("%s: a stranger gets %s", path, got)
		}
	}
	if _, err := administrator(t, cfg).List(t.Context()); err != nil {
		t.Errorf("the proxy's kubeconfig: %v", err)
	}
}

func TestProxyPassesTheCallersTokenOn(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("s3cr3t-of-jane,jane,1,system:masters\n"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	s := launch(t, func(c *gapless.Config) { c.Faults = nil; c.Authentication.TokenAuthFile = tokens })
	cfg := inFront(t, proxy.Config{Upstream: s.URL(), CA: s.RESTConfig().CAData, Faults: fault.New(1)})
	for token, want := range map[string]string{"s3cr3t-of-jane": "200", "guess": "401", "": "403"} {
		caller := &rest.Config{Host: cfg.Host, TLSClientConfig: rest.TLSClientConfig{CAData: cfg.CAData}, BearerToken: token}
		if got := outcome(do(t, clientOf(t, caller, http2), client.Request{Path: "/api/v1/namespaces"})); got != want &&
			(token != "" || got != "401") {
			t.Errorf("token %q: %s, want %s", token, got, want)
		}
		if _, err := administrator(t, &rest.Config{
			Host: cfg.Host, TLSClientConfig: caller.TLSClientConfig,
		}).List(t.Context()); err == nil {
			t.Error("a caller without the proxy's certificate reaches its rules")
		}
	}
}

func TestProxyPassesUpgradesThrough(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack make a response controller: %v", err)
			return
		}
		defer func() { _ = conn.Close() }() // it was read
		line, _ := both.ReadString('\n')
		_, _ = fmt.Fprintf(conn, "%s %s", r.URL.Path, line)
	}))
	defer upstream.Close()
	faults := fault.New(1)
	// it does not match
	if err := faults.Add(fault.Rule{Match: fault.Match{Verbs: []string{"watch"}}, Action: &fault.Cut{}}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	cfg := inFront(t, proxy.Config{Upstream: upstream.URL, Faults: faults})
	resp, err := upgrade(t, cfg)
	if err != nil {
		t.Fatalf("upgrade: %v", err)
	}
	defer resp.Body.Close()
	both := resp.Body.(io.ReadWriteCloser) //nolint:forcetypeassert // net/http says so for 101
	if _, err := io.WriteString(both, "hello\n"); err != nil {
		t.Fatalf("write: %v", err)
	}
	if line, err := bufio.NewReader(both).ReadString('\n'); line != "/api/v1/namespaces/x/pods/y/exec hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func upgrade(t testing.TB, cfg *rest.Config) (*http.Response, error) {
	t.Helper()
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cfg.Host+"/api/v1/namespaces/x/pods/y/exec", nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "SPDY/3.1")
	return transport.RoundTrip(r)
}

func TestProxyAnswersWhenItsServerIsGone(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	upstream := httptest.NewServer(http.NotFoundHandler())
	upstream.Close()
	cfg := inFront(t, proxy.Config{Upstream: upstream.URL, Faults: fault.New(1)})
	if got := outcome(do(t, clientOf(t, cfg, http2), client.Request{Path: "/version"})); got != "503 after 1" {
		t.Error(got)
	}
}

func TestProxyIsRefusedWhatIsNotSafe(t *testing.T) {
	user := &rest.Config{Host: "https://127.0.0.1:1"}
	for want, cfg := range map[string]proxy.Config{
		"can be reached by other machines": {User: user, Listen: "0.0.0.0:0"},
		"name one API server":              {User: user, Upstream: "https://x", Listen: "127.0.0.1:0"},
		"want a URL like":                  {Upstream: "x", Listen: "127.0.0.1:0"},
		"there is no certificate":          {Upstream: "https://x", CA: []byte("x"), Listen: "127.0.0.1:0"},
		"want an address like":             {Upstream: "https://x", Listen: "6444"},
	} {
		cfg.Dir, cfg.Faults = t.TempDir(), fault.New(1)
		if _, err := proxy.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestProxyChangesNothingElse: hop-by-hop headers end at it, and what the server compresses
// passes compressed.
func TestProxyChangesNothingElse(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-Hop", "Te", "Proxy-Authorization", "Keep-Alive", "X-Forwarded-For"} {
			if got := r.Header.Get(name); got != "" {
				t.Errorf("%s: %q arrives", name, got)
			}
		}
		if got := r.Header.Get("Impersonate-User"); got != "jane" || r.URL.RawQuery != "a=%2F&b" ||
			r.URL.EscapedPath() != "/api/v1/x%2Fy" {
			t.Errorf("%q, %s", got, r.URL)
		}
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "here")
		w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		_, _ = io.WriteString(w, "\x1f\x8b compressed")
	}))
	defer upstream.Close()
	cfg := inFront(t, proxy.Config{Upstream: upstream.URL, Faults: fault.New(1)})
	for _, w := range []way{http1, http2} {
		config, err := rest.TLSConfigFor(cfg)
		if err != nil {
			t.Fatalf("make the TLS configuration: %v", err)
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: w == http2, DisableCompression: true}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+"/api/v1/x%2Fy?a=%2F&b", nil)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		if w == http1 {
			r.Header.Set("Connection", "X-Hop")
			r.Header.Set("X-Hop", "here")
			r.Header.Set("Keep-Alive", "5")
		}
		r.Header.Set("Proxy-Authorization", "Basic eA==")
		r.Header.Set("X-Forwarded-For", "10.0.0.1")
		r.Header.Set("Impersonate-User", "jane")
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("round trip: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		if string(body) != "\x1f\x8b compressed" || err != nil || resp.Header.Get("X-Hop") != "" ||
			resp.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %q, %v, %v", w, body, err, resp.Header)
		}
		if want := map[way]int{http1: 1, http2: 2}[w]; resp.ProtoMajor != want {
			t.Errorf("HTTP/%d, want %d", resp.ProtoMajor, want)
		}
		_ = resp.Body.Close() // it was read
		transport.CloseIdleConnections()
	}
}

// TestProxyTellsAnEndedWatchFromABrokenOne: a server that fails within an answer is no clean end.
func TestProxyTellsAnEndedWatchFromABrokenOne(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`+"\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Get("resourceVersion") == "1" {
			panic(http.ErrAbortHandler)
		}
	}))
	defer upstream.Close()
	faults := fault.New(1)
	if err := faults.Add(fault.Rule{Action: &fault.NoBookmarks{}}); err != nil { // its frames are read
		t.Fatalf("add the rule: %v", err)
	}
	cfg := inFront(t, proxy.Config{Upstream: upstream.URL, Faults: faults})
	of := client.Collection{}
	of.Version, of.Resource = "v1", "pods"
	for rv, want := range map[string]string{"0": "end", "1": "broken"} {
		watch, err := clientOf(t, cfg, http1).Watch(t.Context(), of, metav1.ListOptions{ResourceVersion: rv})
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		_, err = watch.Next()
		if err == nil {
			_, err = watch.Next()
		}
		if got := ending(err); got != want {
			t.Errorf("resourceVersion %s: %s, %v; want %s", rv, got, err, want)
		}
		_ = watch.Close() // it has ended
	}
}
