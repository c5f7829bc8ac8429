package mirror

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"

	"github.com/gapless-io/gapless/kube"
)

// KeyBytes is the length of Options.Key: AES-256.
const KeyBytes = 32

// ErrSealed says that an object is encrypted with another key than the one that is given, or that it
// was changed. The collection can be rewritten: the other server has its objects.
var ErrSealed = errors.New("the object is encrypted with another key")

// sealedMark begins the text of an object that is encrypted. JSON begins otherwise.
const sealedMark = 0x01

// newSeal returns what encrypts with a key: AES in Galois/Counter Mode with random nonces; nil for
// no key.
func newSeal(key []byte) (cipher.AEAD, error) {
	if key == nil {
		return nil, nil
	}
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("the key of encrypted objects has %d bytes, want %d", len(key), KeyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealed returns an object as it is stored: encrypted, if the collection is to be.
func (c *Collection) sealed(rv kube.ResourceVersion, object []byte) []byte {
	if c.seal == nil {
		return encodeObject(rv, object)
	}
	head := encodeObject(rv, []byte{sealedMark})
	return c.seal.Seal(head, nil, object, head)
}

// opened returns the JSON of a stored object. It is no mistake to decrypt what was stored while the
// collection was encrypted, whether or not it is now.
func opened(seal cipher.AEAD, value []byte) (rv kube.ResourceVersion, object []byte, err error) {
	rv, object, err = decodeObject(value)
	if err != nil || len(object) == 0 || object[0] != sealedMark {
		return rv, object, err
	}
	if seal == nil {
		return rv, nil, ErrSealed
	}
	object, err = seal.Open(nil, nil, object[1:], value[:versionBytes+1])
	if err != nil {
		return rv, nil, ErrSealed
	}
	return rv, object, nil
}
