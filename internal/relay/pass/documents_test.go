package pass_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/pass"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestDocumentsAreThoseOfDiscovery(t *testing.T) {
	for path, want := range map[string]bool{
		"/api": true, "/api/": true, "/apis": true, "/apis/apps": true, "/apis/apps/v1": true, "/api/v1": true,
		"/openapi/v2": true, "/openapi/v3": true,
		"/openapi/v3/apis/apps/v1": true, "/version": true,
		"/": false, "/openapi": false, "/openapi/v2/x": false, "/openapi/v4": false, "/version/x": false, "/versions": false,
		"/api/v1/pods": false, "/apis/apps/v1/deployments": false,
		"/healthz": false, "/metrics": false, "/api//v1": false, "/logs": false,
	} {
		for method, is := range map[string]bool{"GET": want, "POST": false, "HEAD": false, "DELETE": false} {
			r, err := http.NewRequestWithContext(t.Context(), method, path, nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			if got := pass.IsDocument(r); got != is {
				t.Errorf("%s %s: %v", method, path, got)
			}
		}
	}
}

// library serves documents, which a test changes.
type library struct {
	text, tag string
	code      int
	asked     http.Header
	half      bool
}

func (l *library) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.asked = r.Header
	w.Header().Set("Etag", l.tag)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Set-Cookie", "private")
	if l.tag != "" && r.Header.Get("If-None-Match") == l.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(l.code)
	fmt.Fprint(w, l.text, r.Header.Get("Accept"), r.URL.RawQuery)
	if l.half {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// libraryInFront returns a library behind Documents whose callers are those with a token.
func libraryInFront(t *testing.T) (l *library, front *relaytest.Front, cut func()) {
	t.Helper()
	l = &library{code: http.StatusOK, text: "doc ", tag: `"1"`}
	server, cfg := foreign(t, l.ServeHTTP)
	h, _ := inFront(t, pass.Config{Upstream: cfg})
	documents := pass.NewDocuments(h, func(r *http.Request) (user.Info, error) {
		if r.Header.Get("Authorization") == "" {
			return nil, wire.Unauthorized()
		}
		return jane(), nil
	})
	return l, relaytest.Serve(t, documents, nil, nil), server.Close
}

func TestTheLastDocumentIsServedWhileUpstreamIsAway(t *testing.T) {
	l, front, cut := libraryInFront(t)
	client := front.Client(t, "HTTP/2")
	read := func(path string, headers ...string) (int, string, http.Header) {
		resp := get(t, client, "GET "+front.URL+path, "", append(headers, "Authorization", "Bearer x")...)
		return resp.code, resp.body, resp.header
	}
	for _, path := range []string{"/api", "/apis?x=1", "/openapi/v3/apis/apps/v1"} {
		for _, accept := range []string{"a", "b"} {
			if code, body, h := read(path, "Accept", accept); code != http.StatusOK || h.Get("Age") != "" ||
				h.Get("Set-Cookie") == "" {
				t.Fatalf("%d %s %v", code, body, h)
			}
		}
	}
	l.code = http.StatusForbidden // no good answer takes the place of one
	if code, _, _ := read("/api", "Accept", "a"); code != http.StatusForbidden {
		t.Error("an answer of upstream does not arrive")
	}
	l.code, l.half = http.StatusOK, true // and neither does half of one
	resp, err := send(t, client, "GET "+front.URL+"/api", nil, "Accept", "a")
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	_ = resp.Body.Close()
	cut()
	for path, want := range map[string]string{"/api": "doc a", "/apis?x=1": "doc ax=1", "/openapi/v3/apis/apps/v1": "doc a"} {
		code, body, h := read(path, "Accept", "a")
		if code != http.StatusOK || body != want || h.Get("Etag") != `"1"` || h.Get("Content-Type") != "application/json" ||
			h.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s %v, want %s", path, code, body, h, want)
		}
		if age, err := strconv.Atoi(h.Get("Age")); err != nil || age < 0 || age > 60 ||
			!strings.HasPrefix(h.Get("Warning"), "110 ") {
			t.Errorf("%s: %v", path, h)
		}
	}
	if code, body, _ := read("/api", "Accept", "a", "If-None-Match", `"1"`); code != http.StatusNotModified || body != "" {
		t.Errorf("who has it gets %d %s", code, body)
	}
	for name, c := range map[string][]string{
		"another form": {"/api", "Accept", "c"}, "another query": {"/apis?x=2", "Accept", "a"},
		"another path": {"/apis/none", "Accept", "a"},
	} {
		if code, body, h := read(c[0], c[1:]...); code != http.StatusServiceUnavailable || h.Get("Warning") != "" {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if resp := get(t, client, "GET "+front.URL+"/api", "", "Accept", "a"); resp.code != http.StatusServiceUnavailable {
		t.Errorf("who is not known gets %d %s", resp.code, resp.body)
	}
}

func TestADocumentThatClientsHaveIsRemembered(t *testing.T) {
	l, front, cut := libraryInFront(t)
	has := []string{"Authorization", "Bearer x", "If-None-Match", `"1"`}
	client := front.Client(t, "HTTP/2")
	if resp := get(t, client, "GET "+front.URL+"/api", "", has...); resp.code != http.StatusOK ||
		l.asked.Get("If-None-Match") != "" {
		t.Errorf("the first one: %d %s, asked %v", resp.code, resp.body, l.asked)
	}
	if resp := get(t, client, "GET "+front.URL+"/api", "", has...); resp.code != http.StatusNotModified {
		t.Errorf("the second one: %d", resp.code)
	}
	cut()
	if resp := get(t, client, "GET "+front.URL+"/api", "", "Authorization", "Bearer x"); resp.code != http.StatusOK ||
		resp.body != "doc " {
		t.Errorf("%d %s", resp.code, resp.body)
	}
}

func TestDocumentsPassOtherRequests(t *testing.T) {
	l, front, _ := libraryInFront(t)
	for _, q := range [][2]string{{"GET", "/api/v1/pods"}, {"POST", "/api"}} {
		if resp := get(t, front.Client(t, "HTTP/2"), q[0]+" "+front.URL+q[1], ""); resp.code != http.StatusOK ||
			resp.body != "doc " || l.asked == nil {
			t.Errorf("%v: %d %s", q, resp.code, resp.body)
		}
	}
}

// TestDocumentsAreBounded asks for more than are kept: those that are used stay.
func TestDocumentsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	l, front, cut := libraryInFront(t)
	l.text = strings.Repeat("x", 4<<20)
	client := front.Client(t, "HTTP/2")
	read := func(i int, headers ...string) int {
		return get(t, client, "GET "+fmt.Sprint(front.URL, "/openapi/v3/", i), "",
			append(headers, "Authorization", "Bearer x")...).code
	}
	for i := range 20 { // of together 80 MiB
		if read(i) != http.StatusOK || read(0, "If-None-Match", `"1"`) != http.StatusNotModified {
			t.Fatal(i)
		}
	}
	l.text = strings.Repeat("x", 17<<20)
	read(100) // too large alone
	cut()
	var kept []int
	for _, i := range []int{0, 1, 2, 18, 19, 100} {
		if read(i) == http.StatusOK {
			kept = append(kept, i)
		}
	}
	if got := fmt.Sprint(kept); got != "[0 18 19]" {
		t.Errorf("kept: %s", got)
	}
}

// TestKubectlCanStartWhileUpstreamIsAway reads all that discovery has, with client-go.
func TestKubectlCanStartWhileUpstreamIsAway(t *testing.T) {
	u := relaytest.New(t)
	for _, mode := range []access.Mode{access.Reviews, access.Passthrough} {
		a, err := access.New(access.Config{Mode: mode, Upstream: u.Relay(t), Stale: access.DefaultStale})
		if err != nil {
			t.Fatalf("make a access: %v", err)
		}
		t.Cleanup(a.CloseIdle)
		h, err := pass.New(pass.Config{Upstream: u.Relay(t), Certificate: a.Certificate})
		if err != nil {
			t.Fatalf("make a pass: %v", err)
		}
		t.Cleanup(h.CloseIdle)
		front := relaytest.Serve(t, pass.NewDocuments(h, a.Known), u.ClientCA(t), nil)
		discover := func() error {
			d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{
				Host: front.URL, TLSClientConfig: rest.TLSClientConfig{CAData: front.CA()}, BearerToken: "token-jane",
			})
			if err != nil {
				return err
			}
			_, lists, err := d.ServerGroupsAndResources()
			if err == nil && len(lists) < 10 {
				err = errors.New("hardly anything is served")
			}
			_, versionErr := d.ServerVersion()
			_, schemaErr := d.OpenAPISchema()
			return errors.Join(err, versionErr, schemaErr)
		}
		if err := discover(); err != nil {
			t.Fatalf("discover: %v", err)
		}
		// In passthrough the caller is known by what upstream let him read.
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		r.Header.Set("Authorization", "Bearer token-jane")
		who, err := a.Authenticate(r)
		if err != nil {
			t.Fatalf("authenticate: %v", err)
		}
		if err := a.Authorize(t.Context(), who, configMaps()); err != nil {
			t.Fatalf("authorize: %v", err)
		}
		u.Cut()
		if err := discover(); err != nil {
			t.Errorf("%s: upstream is away: %v", mode, err)
		}
		u.Mend()
	}
}

func configMaps() auth.Attributes {
	return auth.Attributes{Verb: "list", Resource: schema.GroupResource{Resource: "configmaps"}, Version: "v1", Namespace: "shop"}
}
