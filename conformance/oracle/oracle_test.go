package oracle_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/oracle"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// answer is what a request got.
type answer struct {
	code int
	body struct {
		Reason   string
		Metadata struct{ Name, ResourceVersion string }
	}
}

// get sends a request with what the endpoint gives and nothing else.
func get(t *testing.T, e oracle.Endpoint, path string) answer {
	t.Helper()
	return send(t, e, http.MethodGet, path, "")
}

func send(t *testing.T, e oracle.Endpoint, method, path, body string) answer {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(e.CA)) {
		t.Fatalf("the endpoint's CA has no certificate: %q", e.CA)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, e.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+e.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	out := answer{code: resp.StatusCode}
	if err := json.Unmarshal(raw, &out.body); err != nil {
		t.Fatalf("%s %s answered %d %q: %v", method, path, resp.StatusCode, raw, err)
	}
	return out
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"foos.t.example.com"},"spec":{"group":"t.example.com","scope":"Namespaced",
"names":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

func TestServerCompactsAndRestarts(t *testing.T) {
	s, err := oracle.Start(t.Context(), oracle.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	made := send(t, s.Endpoint(), http.MethodPost, definitions, definition)
	if made.code != http.StatusCreated {
		t.Fatalf("the definition got %d %+v, want 201", made.code, made.body)
	}
	first, err := strconv.ParseInt(made.body.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatalf("read a number: %v", err)
	}
	exact := definitions + "?resourceVersionMatch=Exact&resourceVersion=" + strconv.FormatInt(first, 10)
	if got := get(t, s.Endpoint(), exact); got.code != http.StatusOK {
		t.Fatalf("an exact list at %d got %d before the compaction, want 200", first, got.code)
	}
	last, err := s.Revision(t.Context())
	if err != nil || last < first {
		t.Fatalf("revision %d, %v; want at least %d", last, err, first)
	}
	if last == first { // the controllers did not write the status yet
		last = first + 1
		send(t, s.Endpoint(), http.MethodPost, definitions,
			strings.ReplaceAll(strings.ReplaceAll(definition, "foo", "bar"), "Foo", "Bar"))
	}
	before := s.Endpoint()
	if err := s.Compact(t.Context(), last); err != nil {
		t.Fatalf("compact: %v", err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatalf("restart: %v", err)
	}
	if s.Endpoint() == before {
		t.Error("the endpoint is the same after a restart")
	}
	if got := get(t, s.Endpoint(), exact); got.code != http.StatusGone || got.body.Reason != "Expired" {
		t.Errorf("an exact list at %d got %d %s after compaction at %d and a restart, want 410 Expired",
			first, got.code, got.body.Reason, last)
	}
	if got := get(t, s.Endpoint(), definitions+"/foos.t.example.com"); got.body.Metadata.Name != "foos.t.example.com" {
		t.Errorf("the definition is gone after a restart: %d %+v", got.code, got.body)
	}
}

func TestStartRefusesAMissingDirectory(t *testing.T) {
	if _, err := oracle.Start(t.Context(), oracle.Options{Dir: t.TempDir() + "/none"}); err == nil {
		t.Error("Start succeeded without its directory")
	}
}
