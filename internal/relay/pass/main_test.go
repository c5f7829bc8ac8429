package pass_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/relay/pass"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nobody is a caller without a certificate.
func nobody(*http.Request) (user.Info, error) {
	return nil, nil //nolint:nilnil // it is what Config.Certificate returns
}

// foreign is a server that a test writes, with TLS and HTTP/2, and the configuration of a client.
func foreign(t *testing.T, h http.HandlerFunc) (*relaytest.Front, *rest.Config) {
	t.Helper()
	front := relaytest.Serve(t, h, nil, nil)
	return front, &rest.Config{Host: front.URL, TLSClientConfig: rest.TLSClientConfig{CAData: front.CA()}}
}

// inFront starts a handler in front of a server.
func inFront(t *testing.T, cfg pass.Config) (*pass.Handler, *relaytest.Front) {
	t.Helper()
	if cfg.Certificate == nil {
		cfg.Certificate = nobody
	}
	h, err := pass.New(cfg)
	if err != nil {
		t.Fatalf("make a pass: %v", err)
	}
	t.Cleanup(h.CloseIdle)
	return h, relaytest.Serve(t, h, nil, nil)
}

// send sends a request ("GET https://…") with headers, in pairs of name and value.
func send(t *testing.T, c *http.Client, request string, body io.Reader, headers ...string) (*http.Response, error) {
	t.Helper()
	method, url, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return c.Do(r)
}

// answered is an answer that was read.
type answered struct {
	code            int
	header, trailer http.Header
	body            string
}

// get sends a request as send does, and reads the answer.
func get(t *testing.T, c *http.Client, request, body string, headers ...string) answered {
	t.Helper()
	resp, err := send(t, c, request, strings.NewReader(body), headers...)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return answered{resp.StatusCode, resp.Header, resp.Trailer, string(text)}
}
