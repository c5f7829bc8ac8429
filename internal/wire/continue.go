package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

const tokenVersion = "meta.k8s.io/v1"

// continueToken is upstream's token (apiserver pkg/storage/continue.go), so that
// tokens look alike to readers of their content.
type continueToken struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	Start           string `json:"start"`
}

// EncodeContinue makes the token that continues a list at nextKey (inclusive; the
// last key and a zero byte) in the state of rv, or at the latest revision when rv
// is -1. nextKey is relative to the list: "ns/name\x00" for all namespaces,
// "name\x00" within one.
func EncodeContinue(rv int64, nextKey string) string {
	b, err := json.Marshal(continueToken{Version: tokenVersion, ResourceVersion: rv, Start: nextKey})
	if err != nil {
		// Strings and numbers can always be encoded.
		panic("kube: a continue token that cannot be encoded: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeContinue reads a token: rv below 0 means the latest revision, start has no
// leading slash. Errors: 400.
func DecodeContinue(token string) (rv int64, start string, err error) {
	invalid := func(format string, args ...any) error {
		return BadRequest("invalid continue token: continue key is not valid: %s", fmt.Sprintf(format, args...))
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, "", invalid("%v", err)
	}
	var t continueToken
	if err := json.Unmarshal(b, &t); err != nil {
		return 0, "", invalid("%v", err)
	}
	switch {
	case t.Version != tokenVersion:
		return 0, "", invalid("server does not recognize this encoded version %s", t.Version)
	case t.ResourceVersion == 0:
		return 0, "", invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return 0, "", invalid("encoded start key empty (version meta.k8s.io/v1)")
	}
	// A key that climbs out of the list's prefix is refused.
	key := "/" + strings.TrimPrefix(t.Start, "/")
	if path.Clean(key) != key {
		return 0, "", invalid("%s", t.Start)
	}
	return t.ResourceVersion, key[1:], nil
}
