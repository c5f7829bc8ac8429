package access_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// handshakes makes each handshake of a server one by the CA of that moment.
func handshakes(ca *access.ClientCA) func(*tls.Config) *tls.Config {
	return func(base *tls.Config) *tls.Config {
		out := base.Clone()
		out.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return ca.Config(base), nil }
		return out
	}
}

// status sends a request with a certificate; "TLS" is a handshake that failed.
func status(t *testing.T, front *relaytest.Front, proto string, certificates ...tls.Certificate) string {
	t.Helper()
	r := request(t, "")
	r.URL.Scheme, r.URL.Host = "https", front.Listener.Addr().String()
	resp, err := front.Client(t, proto, certificates...).Do(r)
	if err != nil {
		if strings.Contains(err.Error(), "tls") {
			return "TLS"
		}
		return err.Error()
	}
	_ = resp.Body.Close()
	return fmt.Sprint(resp.Proto, " ", resp.StatusCode)
}

func TestCertificatesAreVerifiedByTheCAOfThatMoment(t *testing.T) {
	one, two := relaytest.New(t), relaytest.New(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(pem []byte) {
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	ca := access.ClientCAFromFile(file, nil)
	if changed, err := ca.Load(t.Context()); changed || err == nil {
		t.Errorf("without a file: %v, %v", changed, err)
	}
	cfg := lasting(access.Reviews)
	cfg.Trusted = ca.Trusted
	a := open(t, one, cfg)
	front := relaytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := a.Authenticate(r); err != nil {
			refusal.Write(w, err)
		}
	}), nil, handshakes(ca))
	jane, other := one.Certificate(t, "jane"), two.Certificate(t, "jane")
	check := func(what, wantJane, wantOther string) {
		t.Helper()
		if got := status(t, front, "HTTP/1.1", jane); got != wantJane {
			t.Errorf("%s: a certificate of the first CA: %s, want %s", what, got, wantJane)
		}
		if got := status(t, front, "HTTP/1.1", other); got != wantOther {
			t.Errorf("%s: a certificate of the second CA: %s, want %s", what, got, wantOther)
		}
	}
	const ok = "HTTP/1.1 200"
	check("no CA", "TLS", "TLS")
	write(one.RESTConfig().CAData)
	if changed, err := ca.Load(t.Context()); !changed || err != nil {
		t.Fatal(changed, err)
	}
	check("the first CA", ok, "TLS")
	if got := status(t, front, "HTTP/2", jane); got != "HTTP/2.0 200" {
		t.Errorf("HTTP/2: %s", got)
	}
	kept := front.Client(t, "HTTP/1.1", jane) // a connection from before the change
	ask := func() int {
		r := request(t, "")
		r.URL.Scheme, r.URL.Host = "https", front.Listener.Addr().String()
		resp, err := kept.Do(r)
		if err != nil {
			t.Fatalf("do kept: %v", err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := ask(); got != http.StatusOK {
		t.Fatal(got)
	}
	write(two.RESTConfig().CAData)
	if changed, err := ca.Load(t.Context()); !changed || err != nil {
		t.Fatal(changed, err)
	}
	check("the second CA", "TLS", ok)
	if got := ask(); got != http.StatusUnauthorized {
		t.Errorf("the CA is not trusted any more, and an open connection gets %d", got)
	}
	write([]byte("broken"))
	if changed, err := ca.Load(t.Context()); changed || err == nil {
		t.Errorf("a broken file: %v, %v", changed, err)
	}
	check("a broken file", "TLS", ok)
	write(append(one.RESTConfig().CAData, two.RESTConfig().CAData...))
	if changed, err := ca.Load(t.Context()); !changed || err != nil {
		t.Fatal(changed, err)
	}
	check("both", ok, ok)
	if changed, err := ca.Load(t.Context()); changed || err != nil {
		t.Errorf("nothing has changed: %v, %v", changed, err)
	}
}

func TestUpstreamPublishesItsClientCA(t *testing.T) {
	u := relaytest.New(t)
	cfg := u.Relay(t)
	ca, err := access.ClientCAFromUpstream(cfg, nil)
	if err != nil {
		t.Fatalf("client CA from upstream: %v", err)
	}
	load := func() string {
		changed, err := ca.Load(t.Context())
		return fmt.Sprint(changed, " ", err)
	}
	if got := load(); !strings.Contains(got, "not found") {
		t.Errorf("without the ConfigMap: %s", got)
	}
	configMap := func(data string) {
		u.Apply(t,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: extension-apiserver-authentication, namespace: "+
				"kube-system}, data: {"+data+"}}")
	}
	configMap("requestheader-allowed-names: '[]'")
	if got := load(); !strings.Contains(got, "has no client-ca-file") {
		t.Errorf("without the CA: %s", got)
	}
	configMap(fmt.Sprintf("client-ca-file: %q", u.RESTConfig().CAData))
	if got := load(); got != "true <nil>" {
		t.Error(got)
	}
	jane := u.Certificate(t, "jane")
	front := relaytest.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil, handshakes(ca))
	if got := status(t, front, "HTTP/2", jane); got != "HTTP/2.0 200" {
		t.Error(got)
	}
	u.Cut()
	if got := load(); !strings.HasPrefix(got, "false read upstream") {
		t.Errorf("upstream is away: %s", got)
	}
	if got := status(t, front, "HTTP/1.1", jane); got != "HTTP/1.1 200" {
		t.Errorf("upstream is away: %s", got)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	client.CloseIdleConnections()
}

func TestPassthroughTakesNoCertificates(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, lasting(access.Passthrough))
	front := relaytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := a.Certificate(r)
		_, again := a.Authenticate(r)
		if code(err) != code(again) || err != nil && err.Error() != again.Error() {
			t.Errorf("%v, %v", err, again)
		}
		if err != nil {
			refusal.Write(w, err)
		}
	}), u.ClientCA(t), nil)
	if got := status(t, front, "HTTP/1.1", u.Certificate(t, "jane")); got != "HTTP/1.1 403" {
		t.Error(got)
	}
}
