package gapless_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// thingsServer is an API server of things, over a real socket.
func thingsServer(t *testing.T) (*listwatchtest.Server, *rest.Config) {
	t.Helper()
	world := listwatchtest.New()
	world.BookmarkEvery, world.ServesMetadata = 50*time.Millisecond, true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case "/api/v1":
			_, _ = io.WriteString(w,
				`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list","watch"]}]}`)
		case "/readyz":
			_, _ = io.WriteString(w, "ok")
		default:
			world.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return world, &rest.Config{Host: s.URL}
}

// TestAWatchThatWasPassedOnGets410WhenUpstreamWasRestored reads a watch from before the mirror began.
func TestAWatchThatWasPassedOnGets410WhenUpstreamWasRestored(t *testing.T) {
	world, cfg := thingsServer(t)
	for i := range 20 {
		world.Put("a", i)
	}
	r := startRelay(t, gapless.RelayConfig{
		Upstream: cfg, Memory: true, Resources: []string{"things"}, Access: gapless.RelayAccess{Passthrough: true},
	})
	client, err := rest.HTTPClientFor(through(r, &rest.Config{BearerToken: "somebody"}))
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	defer client.CloseIdleConnections()
	open := func(path string, headers ...string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+path, nil)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("send a request: %v", err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	waitUntil(t, func() error {
		resp := open("/readyz")
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz is %s", resp.Status)
		}
		return nil
	})
	watches := map[string]*bufio.Scanner{}
	for name, accept := range map[string]string{
		"from before the mirror": "application/json", "as a table": "application/json;as=Table;v=v1;g=meta.k8s.io",
	} {
		resp := open("/api/v1/things?watch=true&resourceVersion=1003", "Accept", accept)
		timer := time.AfterFunc(20*time.Second, func() { _ = resp.Body.Close() })
		defer timer.Stop()
		lines := bufio.NewScanner(resp.Body)
		if !lines.Scan() || !strings.Contains(lines.Text(), `"1004"`) {
			t.Fatalf("%s, %s: the watch begins with %q, %v; want the change at 1004",
				name, resp.Status, lines.Text(), lines.Err())
		}
		watches[name] = lines
	}
	world.Rollback(10)
	for name, lines := range watches {
		var last struct {
			Type   string
			Object metav1.Status
		}
		for lines.Scan() {
			last.Type = ""
			if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
		}
		if last.Type != "ERROR" || last.Object.Code != http.StatusGone || lines.Err() != nil {
			t.Errorf("%s: the watch ends with %+v, %v; want 410", name, last, lines.Err())
		}
	}
}
