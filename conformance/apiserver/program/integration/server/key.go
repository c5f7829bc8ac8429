package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
)

// WriteKey writes a new key for the tokens of service accounts into a directory, and returns its file.
func WriteKey(dir string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	return write(dir, "service-accounts.key", "EC PRIVATE KEY", raw)
}
