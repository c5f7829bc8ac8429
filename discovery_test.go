package gapless_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gapless-io/gapless"
)

// TestOthersCanVerifyTokensByDiscovery gets the public keys, as an OpenID client does.
func TestOthersCanVerifyTokensByDiscovery(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	g.account()
	found := g.admin("GET", "/.well-known/openid-configuration", "")
	if found["issuer"] != gapless.DefaultServiceAccountIssuer || found["jwks_uri"] != g.url+"/openid/v1/jwks" {
		t.Errorf("%v", found)
	}
	body, err := json.Marshal(g.admin("GET", "/openid/v1/jwks", ""))
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(body, &set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() {
		t.Fatalf("%s: %v", body, err)
	}
	signed, err := jose.ParseSigned(g.token(`{"audiences":["vault"]}`), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("parse signed: %v", err)
	}
	if signed.Signatures[0].Header.KeyID != set.Keys[0].KeyID {
		t.Error("the token names another key")
	}
	if claims, err := signed.Verify(set.Keys[0].Key); err != nil || !bytes.Contains(claims, []byte(`"vault"`)) {
		t.Errorf("%s: %v", claims, err)
	}
	if code, _ := g.do(g.client(), "GET", "/openid/v1/jwks", ""); code != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", code)
	}
}
