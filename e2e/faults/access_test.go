package faults_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// administrator returns the client of a server's rules with the credentials of cfg.
func administrator(t testing.TB, cfg *rest.Config) *control.Client {
	t.Helper()
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &control.Client{URL: cfg.Host, HTTP: &http.Client{Transport: transport}}
}

func TestRulesOfAServerCanBeChangedWhileTheyAct(t *testing.T) {
	s := launch(t)
	admin := administrator(t, s.RESTConfig())
	if _, err := admin.Add(t.Context(), fault.Rule{Name: "all", Action: &fault.Unavailable{}}); err != nil {
		t.Fatalf("add admin: %v", err)
	}
	c := clientOf(t, s.RESTConfig(), http2)
	if got := outcome(do(t, c, client.Request{Path: "/version"})); got != "503" {
		t.Errorf("any request: %s", got)
	}
	if left, err := admin.Remove(t.Context(), "all"); len(left) != 0 || err != nil {
		t.Errorf("remove: %v, %v", left, err)
	}
	if err := do(t, c, client.Request{Path: "/version"}); err != nil {
		t.Errorf("after the removal: %v", err)
	}
}

func TestOnlyAdministratorsReachTheRules(t *testing.T) {
	for _, mode := range []string{gapless.AuthorizationRBAC, gapless.AuthorizationMastersOnly, gapless.AuthorizationAlwaysAllow} {
		s := launch(t, func(c *gapless.Config) { c.AuthorizationMode = mode })
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is this test's server
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+fault.AdminPath, strings.NewReader("action: cut"))
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			r.Header.Set("Content-Type", "application/yaml")
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatalf("round trip: %v", err)
			}
			_ = resp.Body.Close() // the code is enough
			if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: an anonymous caller gets %d", mode, method, resp.StatusCode)
			}
		}
		transport.CloseIdleConnections()
		if len(s.faults.Rules()) != 0 {
			t.Errorf("%s: an anonymous caller added a rule", mode)
		}
		if mode == gapless.AuthorizationAlwaysAllow {
			continue
		}
		as := rest.CopyConfig(s.RESTConfig())
		as.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
		wrapped, err := rest.HTTPClientFor(as)
		if err != nil {
			t.Fatalf("make an HTTP client: %v", err)
		}
		if _, err := (&control.Client{URL: as.Host, HTTP: wrapped}).List(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: jane gets %v", mode, err)
		}
		wrapped.CloseIdleConnections()
	}
}

func TestServerWithoutFaultsHasNoRules(t *testing.T) {
	s := launch(t, func(c *gapless.Config) { c.Faults = nil })
	if _, err := administrator(t, s.RESTConfig()).List(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "--enable-faults") {
		t.Errorf("%v", err)
	}
}

// FuzzRequestIsReadAsByTheServer: the names that a Match compares are those that
// authorization compares.
func FuzzRequestIsReadAsByTheServer(f *testing.F) {
	for _, target := range []string{
		"/api/v1/pods?watch=1", "/api/v1/pods?watch=false", "/api/v1/pods?watch", "/api/v1/namespaces/x",
		"/api/v1/namespaces/x/status",
		"/api/v1/namespaces/x/pods/y/status", "/apis/apps/v1/deployments?a=b&watch=True", "/apis/apps/v1", "/apis/apps", "/api",
		"/", "/version",
		"/api/v1/watch/pods", "/api/v1/watch/namespaces/x/pods/y", "/api/v1/proxy/namespaces/x/pods/y/z",
		"/api/v1/pods?%77atch=1", "/api/v1/pods?watch=%30",
		"//api/v1/pods/", "/api/v1/namespaces/x/status/y", "/api/v1/nodes/n/proxy/a/b", "/api/v1/pods?watch=1;a",
		"/api/v1/pods?watch=+", "/api//v1/namespaces/x", "/apis//v1/x", "/apis/apps//x",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
			f.Add(method, target)
		}
	}
	catalog := builtin.Catalog()
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" || u.Opaque != "" || strings.ContainsAny(method, " \r\n") || method == "" {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Method, r.URL = method, u
		rt, err := route.Resolve(catalog, r)
		if err != nil || rt.Resource == nil {
			rt = route.Route{Query: r.URL.Query()} // the path alone decides
		}
		want, got := rt.Attributes(r), fault.RequestOf(r)
		resource := want.Resource.Resource
		if want.Namespace != got.Namespace && resource == "namespaces" { // of the server: the namespace's own name
			got.Namespace = want.Namespace
		}
		if rt.Query.Has("fieldSelector") {
			got.Name = want.Name // Match.Names reads it
		}
		if want.Verb != got.Verb || want.Resource.Group != got.Group || resource != got.Resource ||
			want.Subresource != got.Subresource ||
			want.Namespace != got.Namespace || want.Name != got.Name {
			t.Errorf("%s %s is %+v, want %+v", method, target, got, want)
		}
	})
}
