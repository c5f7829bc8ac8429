package dashboard

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

// served is a server with a dashboard.
type served struct {
	t          *testing.T
	client     *http.Client
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	Dashboard  string `json:"dashboard"`
}

// serve runs the program until the test ends.
func serve(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	program := harness.Program(t)
	tokens, ready := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "ready.json")
	if err := os.WriteFile(tokens, []byte("secret,root,1,system:masters\n"), 0o600); err != nil {
		t.Fatalf("write tokens: %v", err)
	}
	s := &served{t: t}
	begin(t, s, program, ready, "serve", "--memory", "--data-dir", filepath.Join(dir, "data"), "--token-auth-file", tokens,
		"--disable-admission-plugins", "ServiceAccount", "--enable-faults")
	ca, err := os.ReadFile(filepath.Join(dir, "data", "pki", "ca.crt"))
	if err != nil {
		t.Fatalf("read the CA: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport}
	return s
}

// relay runs a relay of the server until the test ends, and returns the URL of its dashboard.
func (s *served) relay(resources string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	var r served
	begin(s.t, &r, harness.Program(s.t), filepath.Join(dir, "ready.json"), "relay", "--memory", "--data-dir",
		filepath.Join(dir, "relay"), "--kubeconfig", s.Kubeconfig, "--resources", resources)
	return r.Dashboard
}

// replicas runs two servers over an etcd until the test ends, and returns the URL of the dashboard of one.
func replicas(t *testing.T) string {
	t.Helper()
	root, dir := harness.Root(), t.TempDir()
	path, err := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "etcd")).Output()
	if err != nil {
		t.Fatalf("build etcd: %v", err)
	}
	client, peer := freeURL(t), freeURL(t)
	etcd := exec.Command(strings.TrimSpace(string(path)), "--data-dir", filepath.Join(dir, "etcd"), "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	etcd.Stderr = t.Output()
	if err := etcd.Start(); err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(func() {
		_ = etcd.Process.Kill() // after the servers, which end first
		_ = etcd.Wait()
	})
	var one, two served
	for name, s := range map[string]*served{"one": &one, "two": &two} {
		begin(t, s, harness.Program(t), filepath.Join(dir, name+".json"), "serve", "--data-dir", filepath.Join(dir, name),
			"--etcd-servers", client)
	}
	return one.Dashboard
}

// freeURL is one at which nobody listens.
func freeURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// begin runs a command until the test ends, and reads from a file where it serves.
func begin(t *testing.T, s *served, program, ready string, args ...string) {
	t.Helper()
	args = append(args, "--listen", "127.0.0.1:0", "--dashboard-listen", "127.0.0.1:0", "--ready-file", ready)
	cmd := exec.Command(program, args...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", args[0], err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop %s: %v", args[0], err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v", args[0], err)
		}
	})
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := os.ReadFile(ready)
		if err == nil && json.Unmarshal(text, s) == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready after a minute", args[0])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// open sends a request, and returns the answer.
func (s *served) open(method, path, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatalf("make a request: %v", err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("User-Agent", "web-operator/1.4")
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	got, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func (s *served) send(method, path, body string) {
	s.t.Helper()
	got := s.open(method, path, body)
	text, err := io.ReadAll(got.Body)
	_ = got.Body.Close()
	if err != nil || got.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %s %s %v", method, path, got.Status, text, err)
	}
}

const maps = "/api/v1/namespaces/shop/configmaps"

// fill makes what the pages show, with a watch that stays open.
func (s *served) fill() {
	s.t.Helper()
	s.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	watch := s.open("GET", maps+"?watch=true&labelSelector=app%3Dweb", "")
	s.t.Cleanup(func() { _ = watch.Body.Close() })
	s.send("POST", maps, `{"metadata":{"name":"web","labels":{"app":"web"}},"data":{"color":"blue","size":"small"}}`)
	s.send("PATCH", maps+"/web", `{"data":{"color":"green"}}`)
	s.send("PATCH", maps+"/web", `{"data":{"size":"large","long":"`+strings.Repeat("a-long-word-", 40)+`"}}`)
	s.send("DELETE", maps+"/web", "")
	s.send("POST", maps, `{"metadata":{"name":"web","labels":{"app":"web"}},"data":{"color":"red"}}`)
	s.send("POST", maps, `{"metadata":{"name":"a-name-that-is-`+strings.Repeat("very-", 30)+`long"}}`)
	s.send("POST", "/apis/apps/v1/namespaces/shop/deployments", `{"metadata":{"name":"web","labels":{"app":"web"}},
"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"containers":[{"name":"web","image":"example.org/web:1"}]}}}}`)
	const deployment = "/apis/apps/v1/namespaces/shop/deployments/web"
	s.send("PATCH", deployment+"/status", `{"status":{"replicas":3,"readyReplicas":3,"updatedReplicas":3}}`)
	s.send("PATCH", deployment, `{"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"web",
"image":"example.org/web:2"}]}}}}`)
	s.send("PATCH", deployment+"/status", `{"status":{"observedGeneration":2,"replicas":5,"readyReplicas":3}}`)
	s.send("POST", "/api/v1/namespaces/shop/pods",
		`{"metadata":{"name":"web-1","labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"example.org/web:2"}]}}`)
	s.send("PATCH", "/api/v1/namespaces/shop/pods/web-1/status", `{"status":{"phase":"Running","podIP":"10.1.2.3"}}`)
	s.send("POST", "/api/v1/namespaces/shop/secrets", `{"metadata":{"name":"db"},"stringData":{"password":"correct-horse"}}`)
	s.send("PATCH", "/api/v1/namespaces/shop/secrets/db", `{"stringData":{"password":"battery-staple"}}`)
	s.send("POST", "/faults", `["silence,name=a-rule,verbs=watch,resources=events,userAgents=nobody|`+
		strings.Repeat("a-long-name-", 30)+`"]`)
}
