package gapless_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless"
)

// choosy is an admission webhook that remembers what it was shown.
type choosy struct {
	*httptest.Server

	ca *authority // of its certificate

	// mu guards seen.
	mu   sync.Mutex
	seen []string // path, common name of the certificate, Authorization
}

func newChoosy(t *testing.T, clients *authority) *choosy {
	t.Helper()
	c := &choosy{ca: newAuthority(t, "hook")}
	serving, _ := issue(t, c.ca, func(cert *x509.Certificate) {
		cert.DNSNames, cert.IPAddresses = []string{"hook.default.svc"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	trusted := x509.NewCertPool()
	trusted.AddCert(clients.cert)
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c.TLS = &tls.Config{
		Certificates: []tls.Certificate{serving}, ClientCAs: trusted, ClientAuth: tls.VerifyClientCertIfGiven,
		MinVersion: tls.VersionTLS12,
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *choosy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if certs := r.TLS.PeerCertificates; len(certs) > 0 {
		name = certs[0].Subject.CommonName
	}
	c.mu.Lock()
	c.seen = append(c.seen, fmt.Sprintf("%s %s %q", r.URL.Path, name, r.Header.Get("Authorization")))
	c.mu.Unlock()
	var review map[string]any
	if json.NewDecoder(r.Body).Decode(&review) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	review["response"] = map[string]any{"uid": at(review, "request", "uid"), "allowed": true}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the caller may have left
}

// heard returns what was seen since the last call.
func (c *choosy) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// TestWebhooksAreShownTheCredentialsOfTheirHost has a file with a certificate for one host, and tokens for others; the
// validating phase has a file of its own.
func TestWebhooksAreShownTheCredentialsOfTheirHost(t *testing.T) {
	clients, dir := newAuthority(t, "hook-clients"), t.TempDir()
	h := newChoosy(t, clients)
	cert, _ := issue(t, clients, func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "admission"} })
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	writePEM(t, filepath.Join(dir, "client.crt"), "CERTIFICATE", cert.Certificate[0])
	writePEM(t, filepath.Join(dir, "client.key"), "PRIVATE KEY", key)
	_, port, _ := strings.Cut(strings.TrimPrefix(h.URL, "https://"), ":")
	put(t, filepath.Join(dir, "token"), "from-a-file")
	mutating, validating := filepath.Join(dir, "mutating"), filepath.Join(dir, "validating")
	put(t, mutating, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","users":[
		{"name":"127.0.0.1:%s","user":{"client-certificate":"client.crt","client-key":"client.key"}},
		{"name":"*.default.svc:%s","user":{"tokenFile":"token"}}]}`, port, port))
	put(t, validating, `{"apiVersion":"v1","kind":"Config","users":[{"name":"*","user":{"token":"any"}}]}`)
	config := filepath.Join(dir, "admission.yaml")
	put(t, config, fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[
		{"name":"MutatingAdmissionWebhook","configuration":{"apiVersion":"apiserver.config.k8s.io/v1",
			"kind":"WebhookAdmissionConfiguration","kubeConfigFile":%q}},
		{"name":"ValidatingAdmissionWebhook","configuration":{"apiVersion":"apiserver.config.k8s.io/v1",
			"kind":"WebhookAdmissionConfiguration","kubeConfigFile":%q}}]}`, mutating, validating))
	g := newRigOf(t, gapless.Config{Bootstrap: gapless.BootstrapNone, AdmissionControlConfigFile: config})
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.ca.cert.Raw}))
	g.admin("POST", "/api/v1/namespaces/default/services", fmt.Sprintf(
		`{"metadata":{"name":"hook"},"spec":{"type":"ExternalName","externalName":"127.0.0.1","ports":[{"port":%s}]}}`, port))
	hook := func(name, client string) string {
		return fmt.Sprintf(`{"name":"%s.x.io","clientConfig":{%s},"sideEffects":"None","admissionReviewVersions":["v1"],
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}`, name, client)
	}
	byURL := func(path string) string { return fmt.Sprintf(`"url":"%s/%s","caBundle":%q`, h.URL, path, ca) }
	byService := fmt.Sprintf(
		`"service":{"namespace":"default","name":"hook","port":%s,"path":"/service"},"caBundle":%q`, port, ca)
	const path = "/apis/admissionregistration.k8s.io/v1/"
	g.admin("POST", path+"mutatingwebhookconfigurations",
		`{"metadata":{"name":"m"},"webhooks":[`+hook("a", byURL("url"))+","+hook("b", byService)+`]}`)
	g.admin("POST", path+"validatingwebhookconfigurations",
		`{"metadata":{"name":"v"},"webhooks":[`+hook("c", byURL("validating"))+`]}`)
	g.admin("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	want := []string{
		`/url admission ""`,
		`/service nobody "Bearer from-a-file"`,
		`/validating nobody "Bearer any"`,
	}
	if got := h.heard(); !cmp.Equal(got, want) {
		t.Errorf("the webhooks were shown: %s", cmp.Diff(want, got))
	}
}
