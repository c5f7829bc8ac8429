package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority signs certificates, of a server and of its clients.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	a.pem = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "cluster"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, &a.key.PublicKey)
	block, _ := pem.Decode(a.pem)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a certificate as PEM, its own for the authority's first.
func (a *authority) sign(t testing.TB, c *x509.Certificate, of *ecdsa.PublicKey) []byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, of, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// keyPEM is a key in SEC 1 form, the one that old clients read.
func keyPEM(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// client returns the identity of a user.
func (a *authority) client(t testing.TB, user string, groups ...string) *Identity {
	t.Helper()
	key := newKey(t)
	cert := a.sign(t, &x509.Certificate{
		Subject:  pkix.Name{CommonName: user, Organization: groups},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &key.PublicKey)
	return &Identity{CA: a.pem, Cert: cert, Key: keyPEM(t, key)}
}

// server returns the certificate and key of a server on the loopback address.
func (a *authority) server(t testing.TB) *Identity {
	t.Helper()
	key := newKey(t)
	cert := a.sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &key.PublicKey)
	return &Identity{CA: a.pem, Cert: cert, Key: keyPEM(t, key)}
}
