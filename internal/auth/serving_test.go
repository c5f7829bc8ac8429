package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/auth"
)

// served returns the certificate that a handshake gets, by a name.
func served(t *testing.T, c *auth.Credentials, name string) *x509.Certificate {
	t.Helper()
	cert, err := c.ServerTLS().GetCertificate(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatalf("get the certificate: %v", err)
	}
	return cert.Leaf
}

// TestServingCertificatesAreRenewedWithoutARestart lets ten months pass.
func TestServingCertificatesAreRenewedWithoutARestart(t *testing.T) {
	c := open(t, t.TempDir())
	first := served(t, c, "localhost")
	if changed, err := c.Reload(time.Now().Add(300 * 24 * time.Hour)); changed || err != nil {
		t.Errorf("after 300 days: %v, %v", changed, err)
	}
	shake(t, c)
	if changed, err := c.Reload(time.Now().Add(310 * 24 * time.Hour)); !changed || err != nil {
		t.Errorf("after 310 days: %v, %v", changed, err)
	}
	second := served(t, c, "localhost")
	if second.Equal(first) || second.NotAfter.Sub(first.NotAfter) < 300*24*time.Hour {
		t.Errorf("valid until %v, and before until %v", second.NotAfter, first.NotAfter)
	}
	if changed, err := c.Reload(time.Now().Add(311 * 24 * time.Hour)); changed || err != nil {
		t.Errorf("a day later: %v, %v", changed, err)
	}
}

// TestChangedFilesAreServed replaces the files of a certificate and of CAs, also by halves.
func TestChangedFilesAreServed(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	open(t, one, "api.example.org")
	open(t, two, "api.example.org")
	dir := t.TempDir()
	copyPair := func(from string, names ...string) {
		for _, name := range names {
			replace(t, dir, name, files(t, from)[name])
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	copyPair(one, "serving.crt", "serving.key", "ca.crt")
	at := func(name string) string { return filepath.Join(dir, "pki", name) }
	c, err := auth.Open(t.TempDir(), auth.Options{
		Files: auth.Files{Cert: at("serving.crt"), Key: at("serving.key"), ClientCA: at("ca.crt")},
	})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	first, firstCA := served(t, c, "api.example.org"), certificate(t, files(t, one)["ca.crt"])
	copyPair(two, "serving.crt")
	if changed, err := c.Reload(time.Now()); changed || err == nil || !served(t, c, "api.example.org").Equal(first) {
		t.Errorf("a certificate without its key: %v, %v", changed, err)
	}
	copyPair(two, "serving.key", "ca.crt")
	if changed, err := c.Reload(time.Now()); !changed || err != nil || served(t, c, "api.example.org").Equal(first) {
		t.Errorf("the whole pair: %v, %v", changed, err)
	}
	if c.Trusted(firstCA) || !c.Trusted(certificate(t, files(t, two)["ca.crt"])) {
		t.Error("the CAs are not those of the file now")
	}
	both := files(t, one)["ca.crt"] + files(t, two)["ca.crt"]
	replace(t, dir, "ca.crt", both[:len(both)-100]) // as read while it is written
	if changed, err := c.Reload(time.Now()); changed || err == nil || !c.Trusted(certificate(t, files(t, two)["ca.crt"])) {
		t.Errorf("a part of a file with two CAs: %v, %v", changed, err)
	}
	replace(t, dir, "ca.crt", "nothing")
	if changed, err := c.Reload(time.Now()); changed || err == nil || !c.Trusted(certificate(t, files(t, two)["ca.crt"])) {
		t.Errorf("a file without a CA: %v, %v", changed, err)
	}
}

func TestTheSigningKeyIsMadeOnceAndNeverOverwritten(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := auth.SigningKey(dir); err != nil {
		t.Fatalf("make the signing key: %v", err)
	}
	before := files(t, dir)["sa.key"]
	if _, err := auth.SigningKey(dir); err != nil || files(t, dir)["sa.key"] != before {
		t.Errorf("a second time: %v", err)
	}
	replace(t, dir, "sa.key", before[:40])
	if _, err := auth.SigningKey(dir); err == nil || files(t, dir)["sa.key"] != before[:40] {
		t.Errorf("a damaged key: %v", err)
	}
}
