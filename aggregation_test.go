package gapless_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless"
)

// behind is a server that a gapless server aggregates.
type behind struct {
	*httptest.Server

	bundle []byte                  // of its CA
	next   chan string             // what a watch sends
	broken atomic.Bool             // it answers 500
	other  atomic.Pointer[storing] // who answers instead; nil: nobody
}

// aggregating returns a server, and one behind it that trusts it, for which there is no APIService yet.
func aggregating(t *testing.T) (*rig, *behind) {
	t.Helper()
	front, back := newAuthority(t, "front-proxy"), newAuthority(t, "behind")
	client, _ := issue(t, front, func(c *x509.Certificate) { c.Subject.CommonName = "front-proxy-client" })
	serving, _ := issue(t, back, func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"behind.default.svc"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	b := &behind{
		bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: back.cert.Raw}), next: make(chan string),
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(front.cert)
	b.Server = httptest.NewUnstartedServer(b)
	b.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b.TLS = &tls.Config{
		Certificates: []tls.Certificate{serving}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
	b.EnableHTTP2 = true
	b.StartTLS()
	t.Cleanup(b.Close)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "proxy.crt"), filepath.Join(dir, "proxy.key")
	der, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	if err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	writePEM(t, cert, "CERTIFICATE", client.Certificate[0])
	writePEM(t, key, "PRIVATE KEY", der)
	g := newRigOf(t, gapless.Config{
		Bootstrap:   gapless.BootstrapServer,
		Aggregation: gapless.Aggregation{ProxyClientCertFile: cert, ProxyClientKeyFile: key},
	})
	t.Cleanup(b.CloseClientConnections) // before the server stops
	return g, b
}

const (
	behindVersion  = "/apis/behind.example.com/v1"
	behindService  = "/apis/apiregistration.k8s.io/v1/apiservices/v1.behind.example.com"
	aggregatedForm = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// ServeHTTP implements http.Handler.
func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch other := b.other.Load(); {
	case other != nil:
		other.ServeHTTP(w, r)
	case b.broken.Load():
		http.Error(w, "broken", http.StatusInternalServerError)
	case r.URL.Path == "/apis":
		w.Header().Set("Content-Type", aggregatedForm)
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":
			"behind.example.com"},"versions":[{"version":"v1","resources":[{"resource":"things","scope":"Namespaced",
			"responseKind":{"group":"behind.example.com","version":"v1","kind":"Thing"},"verbs":["get","list","watch"]}]}]}]}`)
	case r.URL.Path == behindVersion:
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"behind.example.com/v1","resources":[]}`)
	case r.URL.Path == "/openapi/v3":
		fmt.Fprintf(w, `{"paths":{"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=mine"},
			"apis/behind.example.com/v1":{"serverRelativeURL":"/openapi/v3%s?hash=X"}}}`, behindVersion)
	case r.URL.Query().Get("watch") == "true":
		for {
			select {
			case line := <-b.next:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case r.Header.Get("Upgrade") != "":
		b.echo(w)
	case strings.HasSuffix(r.URL.Path, "/moved"):
		http.Redirect(w, r, "https://example.com/", http.StatusFound)
	default:
		w.WriteHeader(http.StatusTeapot)
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"path": r.URL.RequestURI(), "method": r.Method, "header": r.Header, "body": string(body),
		})
	}
}

// echo switches to a protocol that repeats each line.
func (b *behind) echo(w http.ResponseWriter) {
	conn, lines, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprintf(conn, "again %s", line)
	}
}

// register makes the Service of a server behind, with its address, and the APIService.
func (b *behind) register(g *rig) {
	g.t.Helper()
	g.admin("POST", "/api/v1/namespaces/default/services", service(443))
	g.admin("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", b.slice(g.t, true))
	g.admin("POST", "/apis/apiregistration.k8s.io/v1/apiservices", b.apiService())
	g.becomes(behindService, "True Passed")
}

func service(port int) string {
	return fmt.Sprintf(`{"metadata":{"name":"behind"},"spec":{"ports":[{"name":"https","port":%d}]}}`, port)
}

func (b *behind) slice(t *testing.T, ready bool) string {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(b.URL, "https://"), ":")
	return fmt.Sprintf(`{"metadata":{"name":"behind-1","labels":{"kubernetes.io/service-name":"behind"}},"addressType":"IPv4",
		"ports":[{"name":"https","port":%s}],"endpoints":[{"addresses":["127.0.0.1"],"conditions":{"ready":%t}}]}`, port, ready)
}

func (b *behind) apiService() string {
	return fmt.Sprintf(`{"metadata":{"name":"v1.behind.example.com"},"spec":{"group":"behind.example.com","version":"v1",
		"groupPriorityMinimum":2000,"versionPriority":10,"caBundle":%q,"service":{"namespace":"default","name":"behind"}}}`,
		base64.StdEncoding.EncodeToString(b.bundle))
}

// becomes waits until the condition Available of an APIService is a status and a reason, and returns its message.
func (g *rig) becomes(path, want string) (message string) {
	g.t.Helper()
	last := ""
	defer func() {
		if g.t.Failed() {
			g.t.Logf("the condition of %s is %q", path, last)
		}
	}()
	until(g.t, func() bool {
		all, _ := at(g.admin("GET", path, ""), "status", "conditions").([]any)
		if len(all) == 0 {
			return false
		}
		last = fmt.Sprintf("%v %v", at(all[0], "status"), at(all[0], "reason"))
		message, _ = at(all[0], "message").(string)
		return last == want
	})
	return message
}

// TestRequestsReachTheServerBehind holds what a server behind gets: the user, by the headers of a front proxy, and
// nothing that only this server is to see.
func TestRequestsReachTheServerBehind(t *testing.T) {
	g, b := aggregating(t)
	if code, _ := g.do(g.client(g.own), "GET", behindVersion+"/things", ""); code != http.StatusNotFound {
		t.Errorf("before there is an APIService: %d", code)
	}
	b.register(g)
	code, got := g.do(g.client(g.own), "PUT", behindVersion+"/namespaces/a/things/b?x=1%202&y", `{"a":1}`,
		"Impersonate-User", "jane", "Impersonate-Group", "dev", "Impersonate-Group", "system:authenticated",
		"Impersonate-Extra-Scopes", "view", "Impersonate-Uid", "u1", "X-Own", "mine", "Audit-Id", "my-id")
	if code != http.StatusForbidden {
		t.Errorf("jane may not: %d %v", code, got)
	}
	g.admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"things"},"rules":[{"apiGroups":
		["behind.example.com"],"resources":["things"],"verbs":["update"]}]}`)
	g.admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"things"},"roleRef":
		{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"things"},"subjects":[{"kind":"User",
		"apiGroup":"rbac.authorization.k8s.io","name":"jane"}]}`)
	code, got = g.do(g.client(g.own), "PUT", behindVersion+"/namespaces/a/things/b?x=1%202&y", `{"a":1}`,
		"Impersonate-User", "jane", "Impersonate-Group", "dev", "Impersonate-Group", "system:authenticated",
		"Impersonate-Extra-Scopes", "view", "Impersonate-Uid", "u1", "X-Own", "mine", "Audit-Id", "my-id")
	if code != http.StatusTeapot || got["method"] != "PUT" || got["body"] != `{"a":1}` ||
		got["path"] != behindVersion+"/namespaces/a/things/b?x=1%202&y" {
		t.Errorf("%d %v", code, got)
	}
	header, _ := got["header"].(map[string]any)
	seen := map[string]string{}
	for name, values := range header {
		if strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "Impersonate-") ||
			slices.Contains([]string{"Authorization", "X-Own", "Audit-Id", "X-Forwarded-For"}, name) {
			seen[name] = fmt.Sprint(values)
		}
	}
	want := map[string]string{
		"X-Remote-User": "[jane]", "X-Remote-Uid": "[u1]", "X-Remote-Group": "[dev system:authenticated]",
		"X-Remote-Extra-Scopes": "[view]", "X-Own": "[mine]", "Audit-Id": "[my-id]", "X-Forwarded-For": "[127.0.0.1]",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("headers (-want +got): %s", diff)
	}
	if code, _ := g.do(g.client(g.own), "GET", behindVersion+"/moved", ""); code != http.StatusBadGateway {
		t.Errorf("a redirect: %d, want 502", code)
	}
	if code, got := g.do(g.client(g.own), "GET", "/openapi/v3"+behindVersion+"?hash=X", ""); code != http.StatusTeapot {
		t.Errorf("its document of OpenAPI: %d %v", code, got)
	}
}

// TestEventsPassThroughAtOnce holds that each event of a watch passes before the next one is there, and that a server
// that stops ends the watch.
func TestEventsPassThroughAtOnce(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			g, b := aggregating(t)
			b.register(g)
			client := g.client(g.own)
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "HTTP/2"
			url := g.url + behindVersion + "/things?watch=true"
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			go func() { b.next <- "event 0" }() // the answer begins with it
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("watch: %v", err)
			}
			defer func() { _ = resp.Body.Close() }()
			lines := bufio.NewScanner(resp.Body)
			for i := range 5 {
				if i > 0 {
					b.next <- fmt.Sprintf("event %d", i)
				}
				if want := fmt.Sprintf("event %d", i); !lines.Scan() || lines.Text() != want {
					t.Fatalf("%q %v, want %q", lines.Text(), lines.Err(), want)
				}
			}
			g.server.stop()
			if lines.Scan() {
				t.Errorf("after the end: %q", lines.Text())
			}
		})
	}
}

// TestConnectionsSwitchThroughTheServer holds that commands and WebSockets work on a server behind.
func TestConnectionsSwitchThroughTheServer(t *testing.T) {
	g, b := aggregating(t)
	b.register(g)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(g.url, "https://"), &tls.Config{
		RootCAs: g.ca, Certificates: []tls.Certificate{g.own}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "GET %s/namespaces/a/things/b/exec HTTP/1.1\r\nHost: x\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", behindVersion)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // it has none
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("switch: %v %v", resp, err)
	}
	for range 3 {
		fmt.Fprintln(conn, "hello")
		if line, err := in.ReadString('\n'); err != nil || line != "again hello\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
}

// TestDiscoveryShowsServersBehind holds the documents about a group of a server behind, and that one which does not
// answer is marked.
func TestDiscoveryShowsServersBehind(t *testing.T) {
	g, b := aggregating(t)
	b.register(g)
	show := func() (groups string, freshness any, paths map[string]any) {
		var names []string
		for _, item := range g.admin("GET", "/apis", "", "Accept", aggregatedForm)["items"].([]any) {
			name, _ := at(item, "metadata", "name").(string)
			names = append(names, name)
			if name == "behind.example.com" {
				freshness = at(item.(map[string]any)["versions"].([]any)[0], "freshness")
			}
		}
		paths, _ = g.admin("GET", "/openapi/v3", "")["paths"].(map[string]any)
		return strings.Join(names, " "), freshness, paths
	}
	until(t, func() bool {
		_, fresh, paths := show()
		return fresh == "Current" && paths["apis/behind.example.com/v1"] != nil
	})
	groups, _, paths := show()
	if !strings.HasPrefix(groups, "apiregistration.k8s.io apps ") || !strings.HasSuffix(groups, " behind.example.com") {
		t.Errorf("groups: %s", groups)
	}
	if url, _ := at(paths, "apis/apps/v1", "serverRelativeURL").(string); strings.Contains(url, "mine") || url == "" {
		t.Errorf("a server behind speaks for apps: %s", url)
	}
	var legacy []string
	for _, item := range g.admin("GET", "/apis", "")["groups"].([]any) {
		name, _ := at(item, "name").(string)
		legacy = append(legacy, name)
	}
	if strings.Join(legacy, " ") != groups {
		t.Errorf("the older document has %v", legacy)
	}
	if got := g.admin("GET", "/apis/behind.example.com", ""); at(got, "preferredVersion", "version") != "v1" {
		t.Errorf("the group: %v", got)
	}
	if got := g.admin("GET", behindVersion, ""); got["kind"] != "APIResourceList" {
		t.Errorf("the version: %v", got)
	}
	b.broken.Store(true)
	g.admin("PATCH", behindService, `{"metadata":{"labels":{"look":"again"}}}`, "Content-Type", "application/merge-patch+json")
	until(t, func() bool { _, fresh, _ := show(); return fresh == "Stale" })
	g.admin("DELETE", behindService, "")
	if groups, _, paths := show(); strings.Contains(groups, "behind") || paths["apis/behind.example.com/v1"] != nil {
		t.Errorf("without the APIService: %s %v", groups, paths)
	}
}

// TestConditionsSayWhyAServerIsNotAvailable takes an APIService from one that leads nowhere to one that is available,
// and back.
func TestConditionsSayWhyAServerIsNotAvailable(t *testing.T) {
	g, b := aggregating(t)
	g.admin("POST", "/apis/apiregistration.k8s.io/v1/apiservices", b.apiService())
	check := func(want, says string) {
		t.Helper()
		if got := g.becomes(behindService, want); got != says {
			t.Errorf("%s: %q, want %q", want, got, says)
		}
	}
	check("False ServiceNotFound", `service/behind in "default" is not present`)
	if code, _ := g.do(g.client(g.own), "GET", behindVersion+"/things", ""); code != http.StatusServiceUnavailable {
		t.Errorf("while it is not available: %d, want 503", code)
	}
	const services = "/api/v1/namespaces/default/services"
	g.admin("POST", services, service(1))
	check("False ServicePortError", `service/behind in "default" is not listening on port 443`)
	g.admin("PATCH", services+"/behind", `[{"op":"replace","path":"/spec/ports/0/port","value":443}]`,
		"Content-Type", "application/json-patch+json")
	check("False EndpointsNotFound", `cannot find endpointslices for service/behind in "default"`)
	const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	g.admin("POST", slices, b.slice(t, false))
	check("False MissingEndpoints", `endpointslices for service/behind in "default" have no addresses with port name "https"`)
	b.broken.Store(true)
	g.admin("DELETE", slices+"/behind-1", "")
	g.admin("POST", slices, b.slice(t, true))
	url := b.URL + behindVersion
	check("False FailedDiscoveryCheck", fmt.Sprintf("failing or missing response from %s: bad status from %[1]s: 500", url))
	b.broken.Store(false)
	check("True Passed", "all checks passed")
	if code, _ := g.do(g.client(g.own), "GET", behindVersion+"/things", ""); code != http.StatusTeapot {
		t.Errorf("once it is available: %d", code)
	}
	g.admin("DELETE", services+"/behind", "")
	check("False ServiceNotFound", `service/behind in "default" is not present`)
}

// TestVersionsThatAreServedHaveAPIServices holds the APIServices that the server makes: for its own versions before it is
// ready, and for those of definitions as they come and go.
func TestVersionsThatAreServedHaveAPIServices(t *testing.T) {
	g, _ := aggregating(t)
	all := map[string]string{}
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	for _, item := range g.admin("GET", path, "")["items"].([]any) {
		name, _ := at(item, "metadata", "name").(string)
		conditions, _ := at(item, "status", "conditions").([]any)
		all[name] = fmt.Sprint(at(item, "metadata", "labels", "kube-aggregator.kubernetes.io/automanaged"), " ",
			at(conditions[0], "reason"), " ", at(item, "spec", "groupPriorityMinimum"), " ", at(item, "spec", "versionPriority"))
	}
	for name, want := range map[string]string{
		"v1.": "onstart Local 18000 1", "v1.apps": "onstart Local 17800 15", "v2.autoscaling": "onstart Local 17500 30",
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	if len(all) < 20 || all["v1.apiregistration.k8s.io"] != "" {
		t.Errorf("there are %v", all)
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	g.admin("POST", definitions, `{"metadata":{"name":"foos.own.example.com"},"spec":{"group":"own.example.com",
		"scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":false,"storage":false,
		"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	exists := func(name string) bool {
		code, _ := g.do(g.client(g.own), "GET", path+"/"+name, "")
		return code == http.StatusOK
	}
	until(t, func() bool { return exists("v1.own.example.com") })
	if got := g.admin("GET", path+"/v1.own.example.com", ""); fmt.Sprint(at(got, "spec", "groupPriorityMinimum"), " ",
		at(got, "spec", "versionPriority"), " ", at(got, "metadata", "labels", "kube-aggregator.kubernetes.io/automanaged")) !=
		"1000 100 true" {
		t.Errorf("%v", got)
	}
	g.admin("DELETE", path+"/v1.own.example.com", "")
	until(t, func() bool { return exists("v1.own.example.com") }) // made again
	g.admin("DELETE", definitions+"/foos.own.example.com", "")
	until(t, func() bool { return !exists("v1.own.example.com") })
	if exists("v2.own.example.com") {
		t.Error("a version that is not served has an APIService")
	}
}

// TestCertificatesForServersBehindAreChecked holds that a server with files that it cannot use does not start.
func TestCertificatesForServersBehindAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for want, a := range map[string]gapless.Aggregation{
		"needs both files":                  {ProxyClientCertFile: file},
		"want a certificate and its key in": {ProxyClientCertFile: file, ProxyClientKeyFile: file},
	} {
		if got := startError(t, gapless.Config{Memory: true, Aggregation: a}); !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}

// TestAStartMakesWhatIsMissingAndRemovesWhatIsLeft holds what becomes of APIServices that are stored when a server starts:
// by upstream's table (kube-aggregator autoregister checkAPIService).
func TestAStartMakesWhatIsMissingAndRemovesWhatIsLeft(t *testing.T) {
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	g := newRigOf(t, gapless.Config{})
	object := func(name, label string) string {
		return fmt.Sprintf(`{"metadata":{"name":"v1.%s","labels":{%s}},"spec":{"group":%[1]q,"version":"v1",
			"groupPriorityMinimum":1,"versionPriority":1}}`, name, label)
	}
	const managed = `"kube-aggregator.kubernetes.io/automanaged":`
	exists := func(name string) bool {
		code, _ := g.do(g.client(g.own), "GET", path+"/v1."+name, "")
		return code == http.StatusOK
	}
	g.admin("POST", path, object("users.example.com", ""))
	g.admin("POST", path, object("left.example.com", managed+`"onstart"`))
	g.admin("POST", path, object("gone.example.com", managed+`"true"`))
	until(t, func() bool { return !exists("gone.example.com") }) // no definition serves it
	g.admin("DELETE", path+"/v1.apps", "")
	g.admin("PATCH", path+"/v1.batch", `{"spec":{"versionPriority":7}}`, "Content-Type", "application/merge-patch+json")
	g.admin("PATCH", path+"/v1.policy", `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":null}},
		"spec":{"versionPriority":7}}`, "Content-Type", "application/merge-patch+json")
	if exists("apps") || !exists("left.example.com") {
		t.Error("the server acts on what is for a start only")
	}
	g.server.stop()
	again := launch(t, gapless.Config{DataDir: g.dir})
	g.url = again.URL()
	until(t, func() bool { return !exists("left.example.com") })
	if !exists("apps") || !exists("users.example.com") {
		t.Errorf("apps: %t, of users: %t, want both", exists("apps"), exists("users.example.com"))
	}
	for name, want := range map[string]float64{"batch": 15, "policy": 7} {
		if got := at(g.admin("GET", path+"/v1."+name, ""), "spec", "versionPriority"); got != want {
			t.Errorf("the priority of %s is %v, want %v", name, got, want)
		}
	}
	if code, _ := g.do(g.client(g.own), "GET", "/apis/apps/v1/deployments", ""); code != http.StatusOK {
		t.Errorf("apps: %d", code)
	}
}
