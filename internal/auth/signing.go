package auth

import (
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"

	"github.com/gapless-io/gapless/internal/durable"
)

// signingKeyFile has the key that signs tokens of service accounts, below the data directory; the name
// is kubeadm's.
const signingKeyFile = "pki/sa.key"

// SigningKey returns the key that signs tokens of service accounts, from dir/pki/sa.key. It creates
// the key if there is none.
func SigningKey(dir string) (crypto.Signer, error) {
	path := filepath.Join(dir, filepath.FromSlash(signingKeyFile))
	pem, err := os.ReadFile(path)
	switch {
	case err == nil:
		key, err := parseSigningKey(pem)
		if err != nil {
			return nil, fmt.Errorf(
				"the key of service account tokens in %s cannot be read: %w; put the file back, or remove it to create a new "+
					"key (tokens of the old one are then invalid)", path, err)
		}
		return key, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the key of service account tokens: %w", err)
	}
	key, err := newKey(ECDSA)
	if err != nil {
		return nil, fmt.Errorf("generate the key of service account tokens: %w", err)
	}
	if pem, err = encodeKey(key); err != nil {
		return nil, err
	}
	if err := durable.WriteFile(path, pem); err != nil {
		return nil, fmt.Errorf("keep the key of service account tokens: %w", err)
	}
	return key, nil
}

// ReadSigningKey reads a private key, RSA or ECDSA, in PEM.
func ReadSigningKey(path string) (crypto.Signer, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of service account tokens: %w", err)
	}
	key, err := parseSigningKey(pem)
	if err != nil {
		return nil, fmt.Errorf("read the key of service account tokens from %s: %w", path, err)
	}
	return key, nil
}

func parseSigningKey(pem []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(pem)
	if err != nil {
		return nil, err
	}
	signer, is := key.(crypto.Signer)
	if !is {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}
