package dashboard_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// maxPage is how large a page may be.
const maxPage = 150 << 10

// api sends requests to an API server.
type api struct {
	t      testing.TB
	client *http.Client
	url    string
}

// apiOf returns one with the credentials of a configuration.
func apiOf(t testing.TB, cfg *rest.Config) api {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return api{t, client, cfg.Host}
}

// send sends a body as JSON, or as a merge patch.
func (a api) send(method, path, body string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatalf("make a request: %v", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	r.Header.Set("User-Agent", "tester")
	got, err := a.client.Do(r)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	text, err := io.ReadAll(got.Body)
	if closing := got.Body.Close(); err != nil || closing != nil || got.StatusCode/100 != 2 {
		a.t.Fatalf("%s %s: %s %s, %v, %v", method, path, got.Status, text, err, closing)
	}
}

// page is a dashboard as a reader sees it.
type page struct {
	t      testing.TB
	client *http.Client
	url    string
	header http.Header
}

func pageAt(t testing.TB, url string) page {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return page{t, &http.Client{Transport: transport}, url, http.Header{}}
}

// get returns the status and the body, and checks what is true of every page.
func (p page) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		p.t.Fatalf("make a request for %s: %v", path, err)
	}
	r.Header = p.header.Clone()
	got, err := p.client.Do(r)
	if err != nil {
		p.t.Fatalf("get %s: %v", path, err)
	}
	text, err := io.ReadAll(got.Body)
	if closing := got.Body.Close(); err != nil || closing != nil {
		p.t.Fatalf("read %s: %v, %v", path, err, closing)
	}
	if len(text) > maxPage {
		p.t.Errorf("%s has %d bytes", path, len(text))
	}
	if csp := got.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") {
		p.t.Errorf("%s has the policy %q", path, csp)
	}
	return got.StatusCode, string(text)
}

// shows checks that a page is there and has some texts.
func (p page) shows(path string, texts ...string) string {
	p.t.Helper()
	code, body := p.get(path)
	if code != http.StatusOK {
		p.t.Errorf("%s: %d %s", path, code, main(body))
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			p.t.Errorf("%s lacks %q: %s", path, text, main(body))
		}
	}
	return body
}

// main is what a page says, for messages.
func main(body string) string {
	_, text, _ := strings.Cut(body, "<main")
	text, _, _ = strings.Cut(text, "</main>")
	return text[:min(len(text), 4000)]
}

var (
	links = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	// made finds what a value from the API would have made if it was not escaped.
	made = regexp.MustCompile(`(?i)<(img|script>alert)|javascript:`)
)

// crawl follows all links, calls visit with each page, and returns how many there are.
func (p page) crawl(visit func(path, body string)) int {
	p.t.Helper()
	seen, next := map[string]bool{"/": true}, []string{"/"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		code, body := p.get(path)
		if code != http.StatusOK {
			p.t.Errorf("a link leads to %s: %d %s", path, code, main(body))
		}
		visit(path, body)
		for _, found := range links.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(found[1])
			if strings.HasPrefix(to, "/") && !seen[to] {
				seen[to] = true
				next = append(next, to)
			} else if !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "#") && !strings.HasPrefix(to, "data:") {
				p.t.Errorf("%s has a link to %q", path, to)
			}
		}
	}
	return len(seen)
}

// runServer runs a server in memory until stop is called, or the test ends.
func runServer(t testing.TB, change func(*gapless.Config)) (s *gapless.Server, stop func()) {
	t.Helper()
	cfg := gapless.Config{
		Memory: true, Listen: "127.0.0.1:0", DashboardListen: "127.0.0.1:0", Bootstrap: gapless.BootstrapNone,
		Limits: gapless.Limits{ResetsPerMinute: 1 << 20},
	}
	if change != nil {
		change(&cfg)
	}
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("make a server: %v", err)
	}
	stop = until(t, s.Run, s.Ready())
	return s, stop
}

// until runs a program until the returned function is called, or the test ends.
func until(t testing.TB, run func(context.Context) error, ready <-chan struct{}) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }() // it ends with stop
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("it is not ready: %v", err)
	}
	return stop
}

const (
	secretValue = "correct-horse"
	encoded     = "Y29ycmVjdC1ob3JzZQ=="
	odd         = `x"><img src=x onerror=alert(1)>&'`
)

// fill makes objects of many kinds, and changes, deletes and recreates some.
func fill(a api) {
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	const maps = "/api/v1/namespaces/shop/configmaps"
	a.send("POST", maps, `{"metadata":{"name":"web","labels":{"app":"web"}},"data":{"color":"blue"}}`)
	a.send("PATCH", maps+"/web", `{"data":{"color":"green","html":"<script>alert(1)</script>"}}`)
	a.send("DELETE", maps+"/web", ``)
	a.send("POST", maps, `{"metadata":{"name":"web","labels":{"app":"web"}},"data":{"color":"red"}}`)
	a.send("POST", "/api/v1/namespaces/shop/pods",
		`{"metadata":{"name":"one"},"spec":{"containers":[{"name":"c","image":"a:1"}]}}`)
	a.send("PATCH", "/api/v1/namespaces/shop/pods/one/status", `{"status":{"phase":"Running"}}`)
	a.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", fmt.Sprintf(`{"metadata":{"name":%q}}`, odd))
	const secrets = "/api/v1/namespaces/shop/secrets"
	applied := `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"key\":\"` + encoded + `\"}}"}`
	a.send("POST", secrets, `{"metadata":{"name":"db",`+applied+`},"stringData":{"key":"`+secretValue+`"}}`)
	a.send("PATCH", secrets+"/db", `{"data":{"key":"`+encoded+`","more":"`+encoded+`"}}`)
	a.send("DELETE", secrets+"/db", ``)
	a.send("POST", secrets, `{"metadata":{"name":"db"},"data":{"key":"`+encoded+`"}}`)
	a.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1",
"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
}

// widgets makes and changes a custom resource, once it is served.
func widgets(a api) {
	a.t.Helper()
	const path = "/apis/example.com/v1/namespaces/shop/widgets"
	deadline := time.Now().Add(30 * time.Second)
	for {
		r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.url+path, http.NoBody)
		if err != nil {
			a.t.Fatalf("make a request: %v", err)
		}
		got, err := a.client.Do(r)
		if err != nil {
			a.t.Fatalf("list widgets: %v", err)
		}
		_ = got.Body.Close()
		if got.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			a.t.Fatal("widgets are not served")
		}
	}
	const widget = `"apiVersion":"example.com/v1","kind":"Widget"`
	a.send("POST", path, `{`+widget+`,"metadata":{"name":"w"},"spec":{"size":1}}`)
	a.send("PATCH", path+"/w", `{"spec":{"size":2}}`)
}

// TestEveryPageShowsWhatIsKept reads all pages of a server to which links lead.
func TestEveryPageShowsWhatIsKept(t *testing.T) {
	s, _ := runServer(t, nil)
	a := apiOf(t, s.RESTConfig())
	fill(a)
	widgets(a)
	p := pageAt(t, s.DashboardURL())
	p.shows("/", "configmaps", "widgets", "secrets", "clusterroles")
	p.shows("/?all=1", "leases")
	p.shows("/timeline?ns=shop", "Pod shop/one", "Widget shop/w", "spec.size 1→2", "status.phase", "ConfigMap shop/web",
		"by tester", `class="deleted"`)
	p.shows("/timeline?kind=widgets.v1.example.com", "Widget shop/w")
	p.shows("/timeline?label=app%3Dweb", "ConfigMap shop/web")
	p.shows("/timeline?text=green", "ConfigMap shop/web")
	p.shows("/timeline?manager=nobody", "No changes")
	p.shows("/timeline?label=%3D%3D%3D", `class="bad"`) // says what is wrong
	life := p.shows("/object?r=configmaps.v1&ns=shop&name=web", `class="recreated`, `class="deleted"`, `class="changed"`,
		"color: red", "Download as YAML")
	found := regexp.MustCompile(`<li class="changed">\s*<span[^>]*><input[^>]* value="(\d+)"`).FindStringSubmatch(life)
	if found == nil {
		t.Fatalf("there is no change: %s", main(life))
	}
	p.shows("/object?r=configmaps.v1&ns=shop&name=web&b="+found[1], "<td>  color: blue</td><td>  color: green</td>",
		"&lt;script&gt;alert(1)&lt;/script&gt;")
	p.shows("/object?r=clusterroles.v1.rbac.authorization.k8s.io&name="+url.QueryEscape(odd), "img src=x onerror=alert(1)")
	p.shows("/object?r=secrets.v1&ns=shop&name=db&reveal=1", "key: (13 bytes, hash ", `class="recreated`)
	p.shows("/object.yaml?r=secrets.v1&ns=shop&name=db&reveal=1", "key: (13 bytes, hash ")
	p.shows("/object.yaml?r=pods.v1&ns=shop&name=one", "phase: Running")
	p.shows("/between?ns=shop&a=9000000000&b="+found[1], "added", "Widget shop/w", "Pod shop/one")
	p.shows("/between?a="+found[1]+"&b=9000000000", "widgets.v1.example.com: its history begins at ") // with its definition
	p.shows("/watches")
	visited := p.crawl(func(path, body string) {
		if strings.Contains(body, secretValue) || strings.Contains(body, encoded) {
			t.Errorf("%s shows the data of a Secret", path)
		}
		if bad := made.FindString(body); bad != "" && !strings.HasPrefix(path, "/object.yaml") {
			t.Errorf("%s has %q, which was to be escaped", path, bad)
		}
	})
	if visited < 50 {
		t.Errorf("links lead to %d pages only", visited)
	}
	for path, want := range map[string]int{
		"/object?r=pods.v1&name=one": 404, "/object?r=nothing.v1&name=a": 404, "/object?r=pods.v1&ns=shop&name=one&b=x": 400,
		"/between?b=1": 400, "/between?a=1&b=1": 400, "/between?a=soon": 400, "/between?a=1h&page=x": 400, "/nothing": 404,
		"/blame?r=pods.v1&name=one": 404, "/blame?r=pods.v1&ns=shop&name=one&at=x": 400, "/replicas": 404, "/faults": 404,
		"/relay": 404, "/object?r=pods.v1&ns=shop&name=one&at=3001-01-01": 400,
		"/login": 404, "/object.yaml?r=pods.v1&ns=shop&name=one&rv=1": 404,
	} {
		if code, body := p.get(path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, main(body))
		}
	}
	p.header.Set("Origin", "https://attacker.example")
	if code, _ := p.get("/timeline"); code != http.StatusForbidden {
		t.Errorf("a page of another site: %d", code)
	}
}

// TestPagesAreSmall shows large objects, which every page cuts.
func TestPagesAreSmall(t *testing.T) {
	s, _ := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	const maps = "/api/v1/namespaces/default/configmaps"
	var data []string
	for i := range 400 {
		data = append(data, fmt.Sprintf(`"%s-%d":"%s"`, strings.Repeat("key", 60), i, strings.Repeat(`\"&<`, 100)))
	}
	large := "{" + strings.Join(data, ",") + "}"
	for i := range 40 {
		a.send("POST", maps, fmt.Sprintf(`{"metadata":{"name":"%s-%d"}}`, strings.Repeat("long-", 45), i))
		a.send("PATCH", fmt.Sprintf("%s/%s-%d", maps, strings.Repeat("long-", 45), i), `{"data":`+large+`}`)
	}
	for i := range 40 {
		a.send("PATCH",
			maps+"/"+strings.Repeat("long-", 45)+"-1", fmt.Sprintf(`{"data":{"%s":"%d"}}`, strings.Repeat("n", 250), i))
	}
	for _, path := range []string{
		"/", "/timeline", "/object?r=configmaps.v1&ns=default&name=" + strings.Repeat("long-", 45) + "-1",
		"/object?r=configmaps.v1&ns=default&name=" + strings.Repeat("long-", 45) + "-2", "/between?a=1000000001&b=9000000000",
		"/blame?r=configmaps.v1&ns=default&name=" + strings.Repeat("long-", 45) + "-1", "/between?a=1h&kind=configmaps.v1",
	} {
		if size := len(p.shows(path)); size > maxPage { // which get reports
			t.Logf("%s has %d KiB", path, size>>10)
		}
	}
}

func TestThePagesOfAnEmptyServer(t *testing.T) {
	s, _ := runServer(t, nil)
	p := pageAt(t, s.DashboardURL())
	p.shows("/", "namespaces")
	p.shows("/timeline?ns=nothing", "No changes")
	p.shows("/watches", "No watch is open")
	p.shows("/object?r=pods.v1&ns=a&name=b", "No changes are kept") // there never was one
	p.crawl(func(string, string) {})
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited 30 s in vain: %s", what)
		}
	}
}
