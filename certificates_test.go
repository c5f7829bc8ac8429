package gapless_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// authority is a CA of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue returns a certificate that issuer signs, or, without one, the key itself.
func issue(t *testing.T, issuer *authority, change func(*x509.Certificate)) (tls.Certificate, *authority) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "eve", Organization: []string{"system:masters"}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	by := &authority{template, key}
	if issuer != nil {
		by = issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatalf("create a certificate: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("parse the certificate: %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, &authority{cert, key}
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	_, ca := issue(t, nil, func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: name}
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	})
	return ca
}

func (g *rig) authority() *authority {
	g.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(g.dir, "pki", "ca.crt"), filepath.Join(g.dir, "pki", "ca.key"))
	if err != nil {
		g.t.Fatalf("load the key pair: %v", err)
	}
	key, _ := pair.PrivateKey.(*ecdsa.PrivateKey)
	return &authority{pair.Leaf, key}
}

func writePEM(t *testing.T, path, kind string, ders ...[]byte) {
	t.Helper()
	var body []byte
	for _, der := range ders {
		body = append(body, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

// force makes a client send a certificate, whatever the server asks for.
func force(c *http.Client, cert tls.Certificate) *http.Client {
	transport, _ := c.Transport.(*http.Transport)
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &cert, nil
	}
	return c
}

// TestOnlyValidCertificatesOfTrustedCAsIdentifyCallers sends each kind of certificate, without and with
// a further CA.
func TestOnlyValidCertificatesOfTrustedCAsIdentifyCallers(t *testing.T) {
	further, stranger := newAuthority(t, "further"), newAuthority(t, "stranger")
	file := filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, file, "CERTIFICATE", further.cert.Raw)
	g := newRig(t, gapless.Authentication{ClientCAFile: file})
	own := g.authority()
	asServer := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	asIs := func(*x509.Certificate) {}
	for _, c := range []struct {
		name   string
		by     *authority
		change func(*x509.Certificate)
		known  bool
	}{
		{"own CA", own, asIs, true},
		{"further CA", further, asIs, true},
		{"another CA", stranger, asIs, false},
		{"self-signed", nil, asIs, false},
		{"expired", own, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, false},
		{"not yet valid", own, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, false},
		{"a server's", own, asServer, false},
		{"a CA of the same name", &authority{own.cert, stranger.key}, asIs, false},
		{"without a name", own, func(c *x509.Certificate) { c.Subject.CommonName = "" }, false},
	} {
		cert, _ := func() (tls.Certificate, *authority) {
			if c.by != nil && c.by.key == stranger.key && c.by.cert == own.cert {
				fake := *own.cert
				fake.PublicKey = stranger.key.Public()
				return issue(t, &authority{&fake, stranger.key}, c.change)
			}
			return issue(t, c.by, c.change)
		}()
		code := 0 // the handshake fails
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/api/v1/namespaces", http.NoBody)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		if resp, err := force(g.client(), cert).Do(r); err == nil {
			code = resp.StatusCode
			_ = resp.Body.Close()
		}
		if (code == http.StatusOK) != c.known || code != 0 && code != http.StatusOK && code != http.StatusUnauthorized {
			t.Errorf("%s: %d", c.name, code)
		}
	}
	cert, _ := issue(t, further, asIs)
	_, who := g.whoami(g.client(cert))
	if id := fmt.Sprint(at(who, "extra", "authentication.kubernetes.io/credential-id")); who["username"] != "eve" ||
		!strings.HasPrefix(id, "[X509SHA256=") {
		t.Errorf("%v", who)
	}
}

// TestAGivenServingCertificateIsServedForItsNames starts with a certificate for another name.
func TestAGivenServingCertificateIsServedForItsNames(t *testing.T) {
	given := newAuthority(t, "given")
	pair, holder := issue(t, given, func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"api.example.org"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writePEM(t, cert, "CERTIFICATE", pair.Certificate[0], given.cert.Raw)
	der, err := x509.MarshalECPrivateKey(holder.key)
	if err != nil {
		t.Fatalf("marshal EC private key: %v", err)
	}
	writePEM(t, key, "EC PRIVATE KEY", der)
	g := newRig(t, gapless.Authentication{TLSCertFile: cert, TLSPrivateKeyFile: key})
	if code, _ := g.do(g.client(g.own), "GET", "/api", ""); code != http.StatusOK { // by the address
		t.Errorf("%d", code)
	}
	roots := x509.NewCertPool()
	roots.AddCert(given.cert)
	for name, known := range map[string]bool{"api.example.org": true, "localhost": false} {
		conn, err := (&tls.Dialer{
			Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12},
		}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "https://"))
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != known {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFilesThatCannotBeReadStopTheStart also checks that nothing is created.
func TestFilesThatCannotBeReadStopTheStart(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("token,user\n"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for name, a := range map[string]gapless.Authentication{
		"has 2 columns":               {TokenAuthFile: bad},
		"read static tokens":          {TokenAuthFile: bad + "x"},
		"holds no certificate in PEM": {ClientCAFile: bad},
		"read the CAs of clients":     {ClientCAFile: bad + "x"},
		"do not hold a certificate":   {TLSCertFile: bad, TLSPrivateKeyFile: bad},
		"needs both TLSCertFile":      {TLSCertFile: bad},
		"issuer":                      {ServiceAccountIssuers: []string{""}},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		err := tryRun(t, gapless.Config{DataDir: dir, Listen: "127.0.0.1:0", Authentication: a})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the data directory was created", name)
		}
	}
}
