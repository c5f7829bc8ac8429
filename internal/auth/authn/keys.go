package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/keyutil"
)

// Keys sign the tokens of service accounts and verify them.
type Keys struct {
	signer jose.Signer
	all    []jose.JSONWebKey
	byID   map[string]jose.JSONWebKey
}

// algorithms are those of signatures that are taken, upstream's serviceaccount.JWTTokenGenerator
// makes no others. None of them is symmetric, and "none" is not among them.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}
}

// NewKeys returns the keys of a server that signs with one key, and verifies also what was signed
// with the keys of the files: public or private keys in PEM.
func NewKeys(signing crypto.Signer, files []string) (*Keys, error) {
	k := &Keys{byID: map[string]jose.JSONWebKey{}}
	public, err := k.add(signing.Public())
	if err != nil {
		return nil, fmt.Errorf("the key that signs tokens: %w", err)
	}
	private := public
	private.Key = signing
	k.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(public.Algorithm), Key: private}, nil)
	if err != nil {
		return nil, fmt.Errorf("sign tokens: %w", err)
	}
	for _, path := range files {
		more, err := keyutil.PublicKeysFromFile(path)
		if err != nil {
			return nil, fmt.Errorf("read keys of service account tokens: %w", err)
		}
		for _, key := range more {
			if _, err := k.add(key); err != nil {
				return nil, fmt.Errorf("read keys of service account tokens from %s: %w", path, err)
			}
		}
	}
	return k, nil
}

// add adds a public key once.
func (k *Keys) add(public crypto.PublicKey) (jose.JSONWebKey, error) {
	algorithm, err := algorithmOf(public)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("encode the public key: %w", err)
	}
	hash := sha256.Sum256(der)
	key := jose.JSONWebKey{
		Key: public, Algorithm: string(algorithm), Use: "sig",
		KeyID: base64.RawURLEncoding.EncodeToString(hash[:]), // upstream's keyIDFromPublicKey
	}
	if _, has := k.byID[key.KeyID]; !has {
		k.byID[key.KeyID] = key
		k.all = append(k.all, key)
	}
	return key, nil
}

// algorithmOf returns the algorithm of a key's signatures, by upstream's table.
func algorithmOf(public crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := public.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("the curve %s is not supported: want P-256, P-384 or P-521", key.Curve.Params().Name)
	}
	return "", fmt.Errorf("a %T is not supported: want an RSA or ECDSA key", public)
}

// candidates returns the keys that may have signed a token with this key ID; all for none.
func (k *Keys) candidates(id string) []jose.JSONWebKey {
	if id == "" {
		return k.all
	}
	if key, has := k.byID[id]; has {
		return []jose.JSONWebKey{key}
	}
	return nil
}

// The paths of Discovery.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeySetPath        = "/openid/v1/jwks"
)

// Discovery serves the documents by which others verify tokens of service accounts (OpenID Connect
// Discovery), at upstream's paths.
type Discovery struct{ configuration, keySet []byte }

// NewDiscovery returns the documents of an issuer. keySetURL is where others get the public keys. It
// is an error when the issuer is not a URL of https, as the standard demands.
func NewDiscovery(issuer, keySetURL string, k *Keys) (*Discovery, error) {
	at, err := url.Parse(issuer)
	if err != nil || at.Scheme != "https" || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("the issuer %q is not an https URL without query and fragment", issuer)
	}
	if at, err := url.Parse(keySetURL); err != nil || at.Scheme != "https" { // upstream accepts one without a host
		return nil, fmt.Errorf("the address of the keys %q is not an https URL", keySetURL)
	}
	var algorithms []string
	for _, key := range k.all {
		algorithms = append(algorithms, key.Algorithm)
	}
	slices.Sort(algorithms)
	configuration, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		KeySet        string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{issuer, keySetURL, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	keySet, setErr := json.Marshal(jose.JSONWebKeySet{Keys: k.all})
	if err := errors.Join(err, setErr); err != nil {
		return nil, fmt.Errorf("encode the documents of the issuer: %w", err)
	}
	return &Discovery{configuration, keySet}, nil
}

// ServeHTTP implements http.Handler for GETs of the two paths.
func (d *Discovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, contentType := d.configuration, "application/json"
	if r.URL.Path == KeySetPath {
		body, contentType = d.keySet, "application/jwk-set+json"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "public, max-age=3600") // upstream routes/openidmetadata.go
	_, _ = w.Write(body)                                    // its client may have left
}
