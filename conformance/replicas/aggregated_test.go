package replicas_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gapless-io/gapless"
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// behind is a server that only answers who has the certificate of a front proxy.
type behind struct {
	*httptest.Server

	cert, key string // files of the front proxy
	checks    atomic.Int64
}

func newBehind(t *testing.T) *behind {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy-client"}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatalf("create a certificate: %v", err)
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	dir := t.TempDir()
	b := &behind{cert: filepath.Join(dir, "proxy.crt"), key: filepath.Join(dir, "proxy.key")}
	for path, block := range map[string]*pem.Block{
		b.cert: {Type: "CERTIFICATE", Bytes: der}, b.key: {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	b.Server = httptest.NewUnstartedServer(b)
	b.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b.TLS = &tls.Config{ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

const behindVersion = "/apis/behind.example.com/v1"

// ServeHTTP implements http.Handler.
func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == behindVersion {
		b.checks.Add(1)
	}
	if !strings.HasPrefix(r.URL.Path, behindVersion) {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"behind.example.com/v1","resources":[]}`)
}

// register makes the APIService, at a server.
func (b *behind) register(t *testing.T, at dynamic.Interface) {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(b.URL, "https://"), ":")
	for resource, text := range map[schema.GroupVersionResource]string{
		services: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"behind"},"spec":{"type":"ExternalName",
			"externalName":"127.0.0.1"}}`,
		apiServices: `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.behind.example.com"},
			"spec":{"group":"behind.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,
			"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"behind","port":` + port + `}}}`,
	} {
		var in dynamic.ResourceInterface = at.Resource(resource)
		if resource == services {
			in = at.Resource(resource).Namespace("default")
		}
		if _, err := in.Create(t.Context(), object(t, text), metav1.CreateOptions{}); err != nil {
			t.Fatalf("create: %v", err)
		}
	}
}

// condition is the status and the reason of the condition Available.
func condition(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if m, _ := c.(map[string]any); m["type"] == "Available" {
			return fmt.Sprint(m["status"], " ", m["reason"])
		}
	}
	return ""
}

// TestOneReplicaSaysWhetherAServerBehindIsAvailable has two replicas, of which only one has the certificate that the
// server behind wants. All serve the APIService that was made at one, and the leader alone writes its condition: the
// other cannot reach the server, and does not say so, also when it would have to look again. When it leads, it does.
func TestOneReplicaSaysWhetherAServerBehindIsAvailable(t *testing.T) {
	url, b := member(t), newBehind(t)
	able := start(t, url, t.TempDir(), func(c *gapless.Config) {
		c.Aggregation = gapless.Aggregation{ProxyClientCertFile: b.cert, ProxyClientKeyFile: b.key}
	})
	unable := start(t, url, t.TempDir(), nil)
	var at []dynamic.Interface
	for _, r := range []*replica{able, unable} {
		at = append(at, dynamicOf(t, r.RESTConfig()))
	}
	b.register(t, at[1])
	now := func(at dynamic.Interface) *unstructured.Unstructured {
		o, err := at.Resource(apiServices).Get(t.Context(), "v1.behind.example.com", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("get the APIService: %v", err)
		}
		return o
	}
	for _, client := range at {
		eventually(t, "the APIService is available", func() bool { return condition(now(client)) == "True Passed" })
	}
	raw := func(r *replica) error {
		return r.client.RESTClient().Get().AbsPath(behindVersion).Do(t.Context()).Error()
	}
	if err := raw(able); err != nil {
		t.Errorf("the replica with the certificate: %v", err)
	}
	if err := raw(unable); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the replica without the certificate: %v", err)
	}
	version := now(at[1]).GetResourceVersion()
	for i := range 3 { // a change of the Service makes who checks look again
		before := b.checks.Load()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i)
		_, err := at[1].Resource(services).Namespace("default").Patch(t.Context(), "behind", types.MergePatchType, patch,
			metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("patch the Service: %v", err)
		}
		eventually(t, "the server is asked again", func() bool { return b.checks.Load() > before })
	}
	if o := now(at[1]); o.GetResourceVersion() != version {
		t.Errorf("the APIService was written meanwhile: %s, now %s, %s", version, o.GetResourceVersion(), condition(o))
	}
	able.stop(t)
	eventually(t, "the other one says what it sees", func() bool {
		return condition(now(at[1])) == "False FailedDiscoveryCheck"
	})
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after two minutes it does not hold that %s", what)
		}
	}
}
