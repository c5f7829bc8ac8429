package gapless_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// web is a client of a launched server.
func (l launched) web(t testing.TB) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(l.RESTConfig())
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// exchange sends a request, such as "GET /api", with a body, and returns the answer's code and body.
func (l launched) exchange(t testing.TB, client *http.Client, request, body string, kind ...string) (int, string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, l.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", append(kind, "application/json")[0])
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("send a request: %v", err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read to the end: %v", err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, string(text)
}

// Clients send frames as large as the server allows, and what a connection may send before
// its requests account for it is less than a large body: it must not wait for itself.
func TestLargeBodiesFollowOthersOnAConnection(t *testing.T) {
	t.Parallel()
	s := launch(t, gapless.Config{})
	client := s.web(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	for range 4 {
		if code, text := s.exchange(t, client, http.MethodGet+" "+maps, ""); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"a-"},"data":{"a":"` + strings.Repeat("x",
			3<<20-1000) + `"}}`
		if code, text := s.exchange(t, client, http.MethodPost+" "+maps, body); code != http.StatusUnprocessableEntity ||
			!strings.Contains(text, "Too long") {
			t.Fatalf("%d %.300s", code, text)
		}
	}
}

// A conversion webhook that is down keeps neither the server from its start, nor anybody from
// the objects of the stored version.
func TestServerStartsWithoutItsConversionWebhooks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const (
		definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
			`"metadata":{"name":"foos.t.example.com"},"spec":{"group":"t.example.com",
"scope":"Cluster","names":{"plural":"foos","kind":"Foo"},"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
		foos = "/apis/t.example.com/v1/foos"
	)
	dir := t.TempDir()
	first := launch(t, gapless.Config{DataDir: dir})
	client := first.web(t)
	if code, text := first.exchange(t, client, http.MethodPost+" /apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		definition); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := first.exchange(t, client, http.MethodPost+" "+foos,
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	client.CloseIdleConnections()
	first.stop()
	second := launch(t, gapless.Config{DataDir: dir}) // waits until it is ready
	client = second.web(t)
	for path, want := range map[string]int{
		"/readyz": http.StatusOK, foos + "/a": http.StatusOK, "/apis/t.example.com/v2/foos/a": http.StatusInternalServerError,
	} {
		if code, text := second.exchange(t, client, http.MethodGet+" "+path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, text := second.exchange(t, client, http.MethodDelete+" "+foos+"/a", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}
