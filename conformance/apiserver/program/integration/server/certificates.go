package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// NewAuthority returns one with a certificate of its own.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{Key: key}
	a.Cert, err = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, key.Public())
	return a, err
}

// sign returns a certificate for a public key; its own for the authority's first.
func (a *Authority) sign(template *x509.Certificate, of crypto.PublicKey) (*x509.Certificate, error) {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent := a.Cert
	if parent == nil {
		parent = template
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, of, a.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// WriteCA writes the authority's own certificate into a file of a directory, and returns its path.
func (a *Authority) WriteCA(dir, name string) (string, error) {
	return write(dir, name, "CERTIFICATE", a.Cert.Raw)
}

// WriteIssued writes a certificate and its key into the files name.crt and name.key of a directory, and returns their
// paths.
func (a *Authority) WriteIssued(dir, name string, template *x509.Certificate) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	issued, err := a.sign(template, private.Public())
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return "", "", err
	}
	if cert, err = write(dir, name+".crt", "CERTIFICATE", issued.Raw); err != nil {
		return "", "", err
	}
	key, err = write(dir, name+".key", "EC PRIVATE KEY", raw)
	return cert, key, err
}

func write(dir, name, kind string, raw []byte) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}

// servingFiles writes what the server is known by. The file of the authority has upstream's name, which tests read.
func servingFiles(dir string) (ca, cert, key string, err error) {
	authority, err := NewAuthority("gapless")
	if err != nil {
		return "", "", "", err
	}
	if ca, err = authority.WriteCA(dir, "apiserver.crt"); err != nil {
		return "", "", "", err
	}
	cert, key, err = authority.WriteIssued(dir, "serving", &x509.Certificate{
		Subject: pkix.Name{CommonName: "127.0.0.1"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "kubernetes.default.svc"},
	})
	return ca, cert, key, err
}
