package apiserver_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

// TestAggregated plays scripts about the kinds of k8s.io/sample-apiserver, which stands behind each of the servers, and
// asks it who may do what.
func TestAggregated(t *testing.T) {
	front := newFrontProxy(t)
	servers := start(t, setup{off: left, on: optional, flags: []string{
		"--authorization-mode=RBAC", "--proxy-client-cert-file=" + front.cert, "--proxy-client-key-file=" + front.key,
	}})
	for _, s := range []*server{servers.upstream, servers.gapless, servers.replica} {
		s.aggregate(t, startSample(t, s, front))
	}
	compareSwagger(t, servers)
	compareOn(t, "testdata/aggregated", servers)
}

// compareSwagger compares what the servers say of the kinds of the sample in OpenAPI v2: its paths, and the definitions to
// which these refer, which are shared with the servers' own where they are equal.
func compareSwagger(t *testing.T, servers *servers) {
	t.Helper()
	said := map[string]map[string]any{}
	for name, s := range map[string]*server{
		"kube-apiserver": servers.upstream, "gapless": servers.gapless, "gapless over etcd": servers.replica,
	} {
		said[name] = s.sampleSwagger(t)
	}
	for _, name := range []string{"gapless", "gapless over etcd"} {
		if diff := cmp.Diff(said["kube-apiserver"], said[name]); diff != "" {
			t.Errorf("OpenAPI v2 of %s (- kube-apiserver):\n%s", name, diff)
		}
	}
}

// sampleSwagger returns the paths and definitions of the sample, and the names of all that they refer to, when they are in
// the document.
func (s *server) sampleSwagger(t *testing.T) map[string]any {
	t.Helper()
	var doc struct{ Paths, Definitions map[string]any }
	for len(doc.Paths) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the document has no paths of the sample")
		}
		if err := json.Unmarshal(must(t, s.target, http.MethodGet, "/openapi/v2", ""), &doc); err != nil {
			t.Fatalf("decode OpenAPI v2: %v", err)
		}
		maps.DeleteFunc(doc.Paths, func(path string, _ any) bool {
			return !strings.HasPrefix(path, "/apis/wardle.example.com/v1alpha1/")
		})
		select {
		case <-time.After(time.Second):
		case <-t.Context().Done():
		}
	}
	maps.DeleteFunc(doc.Definitions, func(name string, _ any) bool { return !strings.Contains(name, "wardle") })
	refs := map[string]bool{}
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				refs[ref] = true
			}
			for _, member := range v {
				find(member)
			}
		case []any:
			for _, member := range v {
				find(member)
			}
		}
	}
	find(doc.Paths)
	find(doc.Definitions)
	return map[string]any{
		"paths": doc.Paths, "definitions": doc.Definitions, "references": slices.Sorted(maps.Keys(refs)),
	}
}

// frontProxy has the files of a client certificate, and of its CA, which is the certificate itself.
type frontProxy struct{ cert, key string }

func newFrontProxy(t *testing.T) frontProxy {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy-client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("create a certificate: %v", err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	f := frontProxy{cert: filepath.Join(t.TempDir(), "proxy.crt"), key: filepath.Join(t.TempDir(), "proxy.key")}
	write(t, f.cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	write(t, f.key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	return f
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

// startSample starts a k8s.io/sample-apiserver, which startReference has built, behind a server, and returns its port.
func startSample(t *testing.T, s *server, front frontProxy) (port string) {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"c","user":{"token":"root"}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, s.target.URL))
	var log bytes.Buffer
	// Not to end with the test's context: the server in front of it ends first.
	program := filepath.Join(harness.CacheDir(t, "apiserver"), "sample-apiserver")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program,
		"--etcd-servers="+etcd.StartFor(t, etcd.Options{NoSync: true}).URL(), "--bind-address=127.0.0.1", "--secure-port="+port,
		"--cert-dir="+dir, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig, "--authentication-skip-lookup=true",
		"--requestheader-client-ca-file="+front.cert, "--requestheader-allowed-names=front-proxy-client",
		"--enable-priority-and-fairness=false")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("end sample-apiserver: %v", err)
		}
		<-ended
		if t.Failed() {
			t.Logf("output of sample-apiserver:\n%s", tail(log.String()))
		}
	})
	return port
}

// aggregate makes a server pass requests on to the one at a port of this machine.
func (s *server) aggregate(t *testing.T, port string) {
	t.Helper()
	must(t, s.target, http.MethodPost, "/api/v1/namespaces/default/services",
		`{"metadata":{"name":"sample"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	must(t, s.target, http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices", fmt.Sprintf(
		`{"metadata":{"name":"v1alpha1.wardle.example.com"},"spec":{"group":"wardle.example.com","version":"v1alpha1",
		"groupPriorityMinimum":1000,"versionPriority":15,"insecureSkipTLSVerify":true,
		"service":{"namespace":"default","name":"sample","port":%s}}}`, port))
}
