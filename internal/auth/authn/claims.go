package authn

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/user"
)

// longestToken bounds what is decoded of a token, in bytes. Those that are issued here have less
// than 2 KiB; one with an audience per line of a long list stays below it too.
const longestToken = 64 << 10

// claims is what a token says.
type claims struct {
	jwt.Claims

	Kubernetes kubernetesClaims `json:"kubernetes.io"`
}

// kubernetesClaims are upstream's private claims (pkg/serviceaccount/claims.go).
type kubernetesClaims struct {
	Namespace string           `json:"namespace,omitempty"`
	Account   reference        `json:"serviceaccount"`
	Pod       *reference       `json:"pod,omitempty"`
	Secret    *reference       `json:"secret,omitempty"`
	Node      *reference       `json:"node,omitempty"`
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
	// Of tokens that are bound to a webhook configuration, which only an alpha feature of
	// upstream issues and takes.
	Validating *reference `json:"validatingwebhookconfiguration,omitempty"`
	Mutating   *reference `json:"mutatingwebhookconfiguration,omitempty"`
}

type reference struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// errForeign says that a token is not one of a service account of these issuers, but perhaps one
// that another authenticator knows.
var errForeign = errors.New("not a service account token of this server")

// sign returns a token with claims. Its audiences are a list, as upstream's, also if there is
// only one, for which jwt.Audience writes a text.
func (k *Keys) sign(c claims) (string, error) {
	type listed struct {
		claims

		Audience []string `json:"aud"`
	}
	token, err := jwt.Signed(k.signer).Claims(listed{c, c.Audience}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// verify returns the claims of a token that one of the issuers has signed with one of the keys. It
// does not look at times, audiences and objects. Errors: errForeign, and why a token of the issuers
// is not valid.
func (k *Keys) verify(token string, issuers []string) (*claims, error) {
	if len(token) > longestToken || !slices.Contains(issuers, unverifiedIssuer(token)) {
		return nil, errForeign
	}
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil {
		return nil, errForeign
	}
	id := ""
	for _, header := range parsed.Headers {
		if id = header.KeyID; id != "" {
			break
		}
	}
	why := errors.New("invalid signature, no keys found")
	for _, key := range k.candidates(id) {
		// A key has one algorithm: an RSA key must not verify what claims another one.
		if header := parsed.Headers[0]; header.Algorithm != key.Algorithm {
			why = fmt.Errorf("the token's algorithm %q is not the key's", header.Algorithm)
			continue
		}
		c := new(claims)
		if why = parsed.Claims(key.Key, c); why == nil {
			if !slices.Contains(issuers, c.Issuer) {
				return nil, fmt.Errorf("token issuer %q is invalid", c.Issuer)
			}
			return c, nil
		}
	}
	return nil, why
}

// unverifiedIssuer reads the issuer of a token before its signature is checked, so that tokens of
// others cost nothing. "" is none.
func unverifiedIssuer(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return c.Issuer
}

// user returns who has a token with the claims.
func (c *claims) user() *user.DefaultInfo {
	info := serviceaccount.ServiceAccountInfo{
		Namespace: c.Kubernetes.Namespace, Name: c.Kubernetes.Account.Name, UID: c.Kubernetes.Account.UID,
		CredentialID: tokenjwt.CredentialIDForJTI(c.ID),
	}
	if pod := c.Kubernetes.Pod; pod != nil {
		info.PodName, info.PodUID = pod.Name, pod.UID
	}
	if node := c.Kubernetes.Node; node != nil {
		info.NodeName, info.NodeUID = node.Name, node.UID
	}
	u := info.UserInfo()
	return withGroup(&user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()})
}
