package processtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// A certificate of a user is for the time of a test.
const (
	certificateLifetime = 24 * time.Hour
	clockSkew           = time.Hour
)

// issue makes a client certificate for a user, signed by the CA of a server's data directory.
func issue(data, name string, groups []string) (cert, key []byte, err error) {
	if name == "" { // as a certificate it would be anonymous
		return nil, nil, errors.New("a user needs a name")
	}
	ca, signer, err := readCA(data)
	if err != nil {
		return nil, nil, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	const serialBits = 120
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, own.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{
		Type: "PRIVATE KEY", Bytes: secret,
	}), nil
}

// readCA reads the CA of a server.
func readCA(data string) (*x509.Certificate, any, error) {
	var found [2][]byte
	for i, name := range []string{"ca.crt", "ca.key"} {
		text, err := os.ReadFile(filepath.Join(data, "pki", name))
		if err != nil {
			return nil, nil, fmt.Errorf("read the server's CA: %w", err)
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, nil, fmt.Errorf("read the server's CA: %s has no PEM", name)
		}
		found[i] = block.Bytes
	}
	ca, err := x509.ParseCertificate(found[0])
	if err != nil {
		return nil, nil, fmt.Errorf("read the server's CA: %w", err)
	}
	if key, err := x509.ParseECPrivateKey(found[1]); err == nil {
		return ca, key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(found[1])
	if err != nil {
		return nil, nil, fmt.Errorf("read the key of the server's CA: %w", err)
	}
	return ca, key, nil
}
