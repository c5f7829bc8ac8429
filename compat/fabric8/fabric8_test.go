package fabric8

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	configMaps = "/api/v1/namespaces/default/configmaps"
	plainMaps  = "/api/v1/namespaces/plain/configmaps"
	widgets    = "/apis/example.org/v1/namespaces/default/widgets"
)

// under is a server with a proxy in front of it, which injects failures.
type under struct {
	*harness.Server

	t     *testing.T
	proxy *harness.Proxy
	admin *identity
	web   *http.Client
}

func serve(t *testing.T, flags ...string) *under {
	t.Helper()
	s := harness.Start(t, flags...)
	u := &under{Server: s, t: t, proxy: harness.NewProxy(t, s), admin: administrator(t, s)}
	u.web = u.admin.Client(t)
	u.must(http.StatusCreated, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	u.must(http.StatusCreated, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"plain"}}`)
	harness.Eventually(t, "widgets are served", func() bool {
		code, _ := u.do(http.MethodGet, widgets, "")
		return code == http.StatusOK
	})
	return u
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
	`"metadata":{"name":"widgets.example.org"},
	"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
	"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`

func (u *under) do(method, path, body string) (int, string) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), method, u.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		u.t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := u.web.Do(req)
	if err != nil {
		u.t.Fatalf("do web: %v", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		u.t.Fatalf("read to the end: %v", err)
	}
	return resp.StatusCode, string(answer)
}

func (u *under) must(code int, path, body string) {
	u.t.Helper()
	if got, answer := u.do(http.MethodPost, path, body); got != code {
		u.t.Fatalf("POST %s: %d %s", path, got, answer)
	}
}

// informers returns the watches of a program as informers under test. Each may list the
// whole state twice: at the beginning, and after the history that it needs was compacted.
func (u *under) informers(version string, watches map[string]*harness.Watching, p *harness.Foreign) []*harness.Informer {
	paths := map[string]string{"configmaps": configMaps, "widgets": widgets, "plain": plainMaps}
	for name := range watches {
		harness.Eventually(u.t, name+" is watched", func() bool {
			return len(p.Output(`REQUEST .* `+paths[name]+`\?.*watch=true`)) > 0
		})
	}
	var all []*harness.Informer
	for _, name := range []string{"configmaps", "widgets", "plain"} {
		w := watches[name]
		if w == nil {
			continue
		}
		inf := &harness.Informer{
			Name: "fabric8 " + version + " " + name, Path: paths[name], Object: harness.ConfigMap,
			Run:     func(ctx context.Context) { <-ctx.Done() },
			Store:   func() map[string]string { return p.Store(name) },
			Witness: w.Witness, Counter: w.Counter, MaxLists: 2,
		}
		if name == "widgets" {
			inf.Object = func(name string, n int) map[string]any {
				return map[string]any{
					"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
					"spec": map[string]any{"size": n},
				}
			}
		}
		all = append(all, inf)
	}
	return all
}

// socketWatches finds how many watches of a resource have ended that were opened
// with code 101.
var socketWatches = regexp.MustCompile(
	`(?m)^apiserver_request_total\{[^}]*code="101"[^}]*resource="(\w+)"[^}]*verb="WATCH"[^}]*\} (\d+)`)

func TestFabric8WatchOf2019KeepsServerStateUnderFailures(t *testing.T) {
	classPath := build(t, "v4")
	u := serve(t)
	watches := harness.Watches(map[string]string{"configmaps": configMaps, "widgets": widgets})
	p := start(t, classPath, "Watching", append([]string{u.proxy.URL()}, u.admin.files...), watches)
	harness.UnderFailures(t, u.Server, u.proxy, u.web, u.informers("4.2.2", watches, p)...)
	for _, path := range []string{configMaps, widgets} {
		opened := p.Output(`REQUEST 101 GET ` + path + `\?.*watch=true`)
		if len(opened) < 5 { // at the beginning and after each failure
			t.Errorf("%s: %d WebSockets were opened", path, len(opened))
		}
		if others := p.Output(`REQUEST 200 GET ` + path + `\?.*watch=true`); len(others) > 0 {
			t.Errorf("it fell back to HTTP: %q", others)
		}
		t.Logf("%s: %d WebSockets", path, len(opened))
	}
	closed := p.Output("CLOSED")
	for _, line := range closed {
		t.Log(line)
	}
	if expired := p.Output("CLOSED .* 410 "); len(expired) != 6 || len(closed) != 6 {
		t.Errorf(
			"%d watches were closed for good, %d of them by 410; want three each, after history was compacted and "+
				"after it was replaced by an older copy and by a backup", len(closed), len(expired))
	}
	p.Stop()
	u.sockets("configmaps", "widgets")
}

func TestFabric8InformersKeepServerStateUnderFailures(t *testing.T) {
	classPath := build(t, "v7")
	u := serve(t)
	watches := harness.Watches(map[string]string{"configmaps": configMaps, "widgets": widgets, "plain": plainMaps})
	p := start(t, classPath, "Informing", []string{u.proxy.URL(), u.admin.kubeconfig}, watches)
	harness.UnderFailures(t, u.Server, u.proxy, u.web, u.informers("7.8.0", watches, p)...)
	p.Stop()
	u.sockets("configmaps", "widgets")
}

// sockets fails unless the last watches of these resources, which have ended, were
// WebSockets.
func (u *under) sockets(resources ...string) {
	u.t.Helper()
	harness.Eventually(u.t, "the WebSockets are counted", func() bool {
		_, metrics := u.do(http.MethodGet, "/metrics", "")
		counted := map[string]bool{}
		for _, found := range socketWatches.FindAllStringSubmatch(metrics, -1) {
			counted[found[1]] = true
		}
		for _, r := range resources {
			if !counted[r] {
				return false
			}
		}
		return true
	})
}
