package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are a CA with a certificate for a server on 127.0.0.1 and one for a client who
// may do everything.
type Certificates struct {
	dir           string
	ca, cert, key []byte // PEM: of the CA, and the client's
}

// NewCertificates makes certificates, with files in dir.
func NewCertificates(dir string) (*Certificates, error) {
	c := &Certificates{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for certificates: %w", err)
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	sign := func(leaf *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, []byte, error) {
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, signer)
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{
			Type: "PRIVATE KEY", Bytes: secret,
		}), nil
	}
	if c.ca, _, err = sign(root, signer); err != nil {
		return nil, err
	}
	leaf := func(serial int64, subject pkix.Name, usage x509.ExtKeyUsage) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: subject, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	cert, secret, err := sign(leaf(2, pkix.Name{CommonName: "127.0.0.1"}, x509.ExtKeyUsageServerAuth), key)
	if err != nil {
		return nil, err
	}
	if c.cert, c.key, err = sign(leaf(3, pkix.Name{CommonName: "bench", Organization: []string{"system:masters"}},
		x509.ExtKeyUsageClientAuth), key); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"ca.crt": c.ca, "server.crt": cert, "server.key": secret} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write a certificate: %w", err)
		}
	}
	return c, nil
}

// flags are those of the reference server.
func (c *Certificates) flags() []string {
	return []string{
		"--tls-cert-file", filepath.Join(c.dir, "server.crt"), "--tls-private-key-file", filepath.Join(c.dir, "server.key"),
		"--client-ca-file", filepath.Join(c.dir, "ca.crt"),
	}
}

// CopyKeys copies what a gapless has in its directory of certificates, so that another one is known to the same
// clients. Only the owner may read it: gapless takes no other keys.
func CopyKeys(to, from string) error {
	files, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	for i := 0; err == nil && i < len(files); i++ {
		var raw []byte
		if raw, err = os.ReadFile(filepath.Join(from, files[i].Name())); err == nil {
			err = os.WriteFile(filepath.Join(to, files[i].Name()), raw, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("copy the certificates of a server: %w", err)
	}
	return nil
}
