// Package relaytest has what tests of a relay's packages need.
//
// An [Upstream] is an API server with users and roles, which a relay reaches through
// connections that a test can cut. A [Front] is a server that a test puts in front of it, with TLS.
package relaytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
)

// roles let the relay ask for reviews and impersonate everybody; jane read and write ConfigMaps in
// shop, the group lister list them there, and the group watcher watch them.
func roles() string {
	return `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: relay}
rules:
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
- {apiGroups: [""], resources: [users, groups, serviceaccounts], verbs: [impersonate]}
- {apiGroups: [authentication.k8s.io], resources: [uids, userextras/authentication.kubernetes.io/credential-id],` +
		` verbs: [impersonate]}
- {apiGroups: [""], resources: [configmaps], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: relay}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: relay}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: relay}]
` + role("jane", "User", "jane", "*") + role("lister", "Group", "lister", "list") + role("watcher", "Group", "watcher", "watch")
}

func role(name, kind, subject, verb string) string {
	return fmt.Sprintf(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: shop}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [%[4]q]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: %[2]s, name: %[3]s}]
`, name, kind, subject, verb)
}

// Upstream is an API server that knows the tokens token-NAME of jane, joe, lister (of the group
// lister), watcher (of the group watcher) and root (of system:masters).
type Upstream struct {
	*gaplesstest.Server

	// mu guards the rest.
	mu   sync.Mutex
	cut  bool
	open map[net.Conn]struct{}
}

// New returns an Upstream that ends with the test.
func New(t testing.TB) *Upstream {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	const users = "token-jane,jane,1\ntoken-joe,joe,2\ntoken-lister,lister,3,lister\n" +
		"token-watcher,watcher,4,watcher\ntoken-root,root,5,system:masters\n"
	if err := os.WriteFile(tokens, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	u := &Upstream{open: map[net.Conn]struct{}{}}
	u.Server = gaplesstest.New(t, gaplesstest.Config(func(c *gapless.Config) {
		c.Authentication.TokenAuthFile = tokens
		c.Limits.ResetsPerMinute = 1 << 20 // tests send many requests without credentials
	}))
	u.Apply(t, roles())
	return u
}

// Relay returns the relay's client configuration: that of a user who may do what a relay needs, over
// connections that Cut cuts.
func (u *Upstream) Relay(t testing.TB) *rest.Config {
	t.Helper()
	cfg := u.User(t, "relay")
	cfg.Dial = u.dial
	return cfg
}

func (u *Upstream) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cut {
		_ = c.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: c.RemoteAddr(), Err: syscall.ECONNREFUSED}
	}
	u.open[c] = struct{}{}
	return c, nil
}

// Cut closes the relay's connections, and refuses new ones until Mend.
func (u *Upstream) Cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut = true
	for c := range u.open {
		_ = c.Close()
	}
	clear(u.open)
}

// Mend ends a Cut.
func (u *Upstream) Mend() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut = false
}

// Do sends a request to upstream itself as the administrator, and returns the code and the answer.
func (u *Upstream) Do(t testing.TB, method, path, body string) (code int, answer []byte) {
	t.Helper()
	client, err := rest.HTTPClientFor(u.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, u.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Delete deletes an object as the administrator.
func (u *Upstream) Delete(t testing.TB, path string) {
	t.Helper()
	if code, answer := u.Do(t, http.MethodDelete, path, ""); code != http.StatusOK {
		t.Fatalf("delete %s: %d %s", path, code, answer)
	}
}

// Revoke deletes the RoleBinding of a name in shop.
func (u *Upstream) Revoke(t testing.TB, name string) {
	t.Helper()
	u.Delete(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/"+name)
}

// serviceAccount may do what jane may, until DeleteServiceAccount.
const serviceAccount = "/api/v1/namespaces/shop/serviceaccounts/robot"

// ServiceAccountToken creates a service account, which may do what jane may, and returns a token of it.
func (u *Upstream) ServiceAccountToken(t testing.TB) string {
	t.Helper()
	u.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: jane}
subjects: [{kind: ServiceAccount, name: robot, namespace: shop}]
`)
	code, answer := u.Do(t, http.MethodPost, serviceAccount+"/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`)
	var request authenticationv1.TokenRequest
	if err := json.Unmarshal(answer, &request); err != nil || request.Status.Token == "" {
		t.Fatalf("request a token: %d %s", code, answer)
	}
	return request.Status.Token
}

// DeleteServiceAccount deletes the service account, and its tokens do not count any more.
func (u *Upstream) DeleteServiceAccount(t testing.TB) {
	t.Helper()
	u.Delete(t, serviceAccount)
}

// ClientCA returns the pool with upstream's CA of client certificates.
func (u *Upstream) ClientCA(t testing.TB) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(u.RESTConfig().CAData) { // one CA signs both
		t.Fatal("upstream has no CA")
	}
	return pool
}

// Certificate returns the certificate of a user, signed by upstream's CA.
func (u *Upstream) Certificate(t testing.TB, name string, groups ...string) tls.Certificate {
	t.Helper()
	cfg := u.User(t, name, groups...)
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Front is a server with TLS, HTTP/1.1 and HTTP/2, that ends with the test.
type Front struct {
	*httptest.Server

	roots *x509.CertPool
}

// Serve starts a server in front of upstream. configure may change its TLS; nil takes certificates of
// clientCAs, nil: none.
func Serve(t testing.TB, h http.Handler, clientCAs *x509.CertPool, configure func(*tls.Config) *tls.Config) *Front {
	t.Helper()
	probe := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	own := probe.TLS.Certificates
	probe.Close()
	f := &Front{Server: httptest.NewUnstartedServer(h), roots: x509.NewCertPool()}
	f.EnableHTTP2 = true
	f.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // handshakes that fail on purpose
	f.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: own, ClientCAs: clientCAs}
	if clientCAs != nil {
		f.TLS.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if configure != nil {
		f.TLS = configure(f.TLS)
	}
	f.StartTLS()
	f.roots.AddCert(f.Certificate())
	t.Cleanup(f.Close)
	return f
}

// Client returns a client with certificates or without, over HTTP/1.1 or HTTP/2.
func (f *Front) Client(t testing.TB, proto string, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	rt := &http.Transport{
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.roots, Certificates: certificates},
		ForceAttemptHTTP2:  proto == "HTTP/2",
		DisableCompression: true, ExpectContinueTimeout: 1 << 40,
	}
	t.Cleanup(rt.CloseIdleConnections)
	return &http.Client{Transport: rt}
}

// CA returns what clients trust, as PEM.
func (f *Front) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
}
