package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// KeyAlgorithm is the algorithm of the administrator's client key.
type KeyAlgorithm string

// The algorithms. Java's fabric8 client reads keys of elliptic curves from 7 on, and
// before only with BouncyCastle and clientKeyAlgo=EC.
const (
	ECDSA KeyAlgorithm = "ecdsa" // on P-256
	RSA   KeyAlgorithm = "rsa"   // of 2048 bits
)

// ParseKeyAlgorithm returns the algorithm of a name; "" is the default. Its error lists the
// algorithms.
func ParseKeyAlgorithm(name string) (KeyAlgorithm, error) {
	switch a := KeyAlgorithm(name); a {
	case "", ECDSA, RSA:
		return a, nil
	}
	return "", fmt.Errorf("%q is no algorithm of keys here: want %s or %s", name, ECDSA, RSA)
}

func newKey(a KeyAlgorithm) (crypto.Signer, error) {
	if a == RSA {
		const bits = 2048 // kubeadm's
		return rsa.GenerateKey(rand.Reader, bits)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// algorithm returns the algorithm of the pair's key; "" for an unknown one, and without a
// key.
func (p pair) algorithm() KeyAlgorithm {
	switch p.key.(type) {
	case *ecdsa.PrivateKey:
		return ECDSA
	case *rsa.PrivateKey:
		return RSA
	}
	return ""
}

// The types of PEM blocks that keys are in. Java's fabric8 reads no EC key in PKCS #8.
const (
	pemSEC1  = "EC PRIVATE KEY"
	pemPKCS1 = "RSA PRIVATE KEY"
)

// encodeKey returns a key as PEM: SEC 1 or PKCS #1.
func encodeKey(key crypto.Signer) ([]byte, error) {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(k)
		return pem.EncodeToMemory(&pem.Block{Type: pemSEC1, Bytes: der}), err
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: pemPKCS1, Bytes: x509.MarshalPKCS1PrivateKey(k)}), nil
	}
	return nil, fmt.Errorf("cannot encode a %T", key)
}

// parseKey reads a key as encodeKey writes it.
func parseKey(b []byte) (crypto.Signer, error) {
	if b == nil {
		return nil, errors.New("it is missing")
	}
	block, _ := pem.Decode(b)
	switch {
	case block != nil && block.Type == pemSEC1:
		return signer(x509.ParseECPrivateKey(block.Bytes))
	case block != nil && block.Type == pemPKCS1:
		return signer(x509.ParsePKCS1PrivateKey(block.Bytes))
	}
	return nil, errors.New("it holds no key")
}

// signer is a key as an interface, that is nil after an error.
func signer[K crypto.Signer](key K, err error) (crypto.Signer, error) {
	if err != nil {
		return nil, err
	}
	return key, nil
}
