package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// launchWithUsers is launch for tests that make certificates of users: the server's CA is in its
// data directory.
func launchWithUsers(t testing.TB, cfg gapless.Config) (l *launched, as func(name string, groups ...string) *caller) {
	t.Helper()
	cfg.DataDir, cfg.Memory = t.TempDir(), true
	l = launch(t, cfg)
	pki := filepath.Join(cfg.DataDir, "pki")
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		t.Fatalf("load the key pair: %v", err)
	}
	return l, func(name string, groups ...string) *caller {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatalf("generate a key: %v", err)
		}
		now := time.Now()
		template := &x509.Certificate{
			SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name, Organization: groups},
			NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
		if err != nil {
			t.Fatalf("create a certificate: %v", err)
		}
		cfg := l.tlsConfig()
		cfg.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		protocols := &http.Protocols{}
		protocols.SetHTTP2(true)
		var lines connections
		transport := &http.Transport{
			TLSClientConfig: cfg, Protocols: protocols, DisableCompression: true, DialContext: lines.dial,
		}
		t.Cleanup(lines.close)
		t.Cleanup(transport.CloseIdleConnections)
		return &caller{t: t, base: l.URL(), http: &http.Client{Transport: transport}, wire: http2}
	}
}
