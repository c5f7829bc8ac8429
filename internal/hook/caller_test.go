package hook

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
)

// TestPathsAreCleaned holds the paths that requests of client-go have.
func TestPathsAreCleaned(t *testing.T) {
	var called string
	mux := http.NewServeMux() // it redirects what is not clean
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { called = r.URL.EscapedPath() })
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	callers := NewCallers(Config{MaxAnswer: 1 << 10, Concurrent: 1, MaxCallers: 100})
	t.Cleanup(callers.Close)
	for given, want := range map[string]string{
		"":            "/",
		"/":           "/",
		"/hook":       "/hook",
		"//hook":      "/hook", // as envtest has it
		"/hook/":      "/hook",
		"/a/../hook":  "/hook",
		"/a//b/./c":   "/a/b/c",
		"/with space": "/with%20space",
	} {
		t.Run(given, func(t *testing.T) {
			called = "nothing"
			if _, err := callers.Of(&kinds.Webhook{URL: server.URL + given, CABundle: authority}).Post(t.Context(),
				[]byte("{}")); err != nil {
				t.Errorf("post of: %v", err)
			}
			if called != want {
				t.Errorf("of a URL: %s was called, want %s", called, want)
			}
			service := &kinds.ServiceReference{Namespace: "x", Name: "hook", Port: 443, Path: given}
			if at := callers.Of(&kinds.Webhook{Service: service}).urlFor(t.Context()); at != "https://hook.x.svc:443"+want {
				t.Errorf("of a service: %s is called, want %s", at, want)
			}
		})
	}
}
