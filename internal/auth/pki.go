package auth

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// How long certificates last. Leaves are renewed when the server starts within
// renewBefore of their end; the CA outlives the installation.
const (
	caLifetime   = 20 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	renewBefore  = 60 * 24 * time.Hour
	clockSkew    = 5 * time.Minute
)

// pair is a certificate and its key, as objects and as PEM.
type pair struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
	keyPEM  []byte
}

func (p pair) tls() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key, Leaf: p.cert}
}

// newPair signs template, which gets a new key, with the issuer, or with itself when
// issuer is nil.
func newPair(a KeyAlgorithm, template *x509.Certificate, issuer *pair) (pair, error) {
	key, err := newKey(a)
	if err != nil {
		return pair{}, fmt.Errorf("generate key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("generate serial number: %w", err)
	}
	template.SerialNumber = serial
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("read the new certificate: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encode key: %w", err)
	}
	return pair{
		cert: cert, key: key, keyPEM: keyPEM,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

// parsePair reads what newPair encoded.
func parsePair(certPEM, keyPEM []byte) (pair, error) {
	loaded, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return pair{}, err
	}
	key, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return pair{}, errors.New("the key cannot sign")
	}
	return pair{cert: loaded.Leaf, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

func newCA(now time.Time) (pair, error) {
	return newPair(ECDSA, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "gapless-ca"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}, nil)
}

func newServing(ca *pair, hosts []string, now time.Time) (pair, error) {
	template := leaf(pkix.Name{CommonName: "gapless"}, x509.ExtKeyUsageServerAuth, now)
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return newPair(ECDSA, template, ca)
}

func newAdmin(a KeyAlgorithm, ca *pair, now time.Time) (pair, error) {
	return newPair(a,
		leaf(pkix.Name{CommonName: "gapless-admin", Organization: []string{user.SystemPrivilegedGroup}},
			x509.ExtKeyUsageClientAuth, now), ca)
}

func leaf(subject pkix.Name, usage x509.ExtKeyUsage, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:     subject,
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(leafLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
}

// usable reports whether a leaf is signed by the CA, lasts long enough, and is good
// for all the hosts.
func (p pair) usable(ca *pair, hosts []string, now time.Time) bool {
	if p.cert.CheckSignatureFrom(ca.cert) != nil || now.Add(renewBefore).After(p.cert.NotAfter) || now.Before(p.cert.NotBefore) {
		return false
	}
	for _, host := range hosts {
		if p.cert.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}
