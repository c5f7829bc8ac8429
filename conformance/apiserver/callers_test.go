package apiserver_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// outside is what both servers ask about callers: an issuer of OpenID Connect tokens at its URL, and webhooks that review
// tokens and access.
type outside struct {
	*httptest.Server
	key *rsa.PrivateKey
}

// access starts an outside, and returns the flags that make a server ask it, and variables of scripts: tokens.
func access(t *testing.T) (flags []string, variables map[string]string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	o := &outside{key: key}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(o.serve))
	o.EnableHTTP2 = true
	o.StartTLS()
	t.Cleanup(o.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw}))
	dir := t.TempDir()
	file := func(name, body string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		return path
	}
	kubeconfig := func(path string) string {
		body, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"clusters": []any{map[string]any{"name": "h", "cluster": map[string]any{
				"server": o.URL + path, "certificate-authority-data": []byte(ca),
			}}},
			"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "h", "user": "u"}}},
			"users":    []any{map[string]any{"name": "u", "user": map[string]any{}}},
		})
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		return file(strings.Trim(path, "/"), string(body))
	}
	flags = []string{
		"--authentication-config=" + file("issuers.yaml",
			fmt.Sprintf(issuers, o.URL, strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n      "))),
		"--authorization-config=" + file("authorizers.yaml", fmt.Sprintf(authorizers, kubeconfig("/access"))),
		"--authentication-token-webhook-config-file=" + kubeconfig("/tokens"), "--authentication-token-webhook-version=v1",
		"--enable-bootstrap-token-auth", "--service-account-max-token-expiration=2h",
	}
	now := time.Now()
	return flags, map[string]string{
		"jwt": o.token(t, map[string]any{
			"exp": now.Add(time.Hour).Unix(), "roles": []string{"dev", "ops"}, "tenant": "one",
		}),
		"expired":  o.token(t, map[string]any{"exp": now.Add(-time.Hour).Unix()}),
		"banned":   o.token(t, map[string]any{"exp": now.Add(time.Hour).Unix(), "banned": true}),
		"reserved": o.token(t, map[string]any{"exp": now.Add(time.Hour).Unix(), "sub": "system:jane"}),
		"other":    o.token(t, map[string]any{"exp": now.Add(time.Hour).Unix(), "aud": "vault"}),
	}
}

func (o *outside) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: o.key, KeyID: "k"},
	}, nil)
	if err != nil {
		t.Fatalf("make a signer: %v", err)
	}
	all := map[string]any{"iss": o.URL, "aud": "both", "sub": "jane", "iat": time.Now().Unix()}
	maps.Copy(all, claims)
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatalf("sign a token: %v", err)
	}
	return token
}

const issuers = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [both, second]
    audienceMatchPolicy: MatchAny
    certificateAuthority: |
      %s
  claimMappings:
    username:
      expression: claims.sub
    groups:
      expression: 'has(claims.roles) ? claims.roles : []'
    uid:
      expression: '"uid-" + claims.sub'
    extra:
    - key: example.org/tenant
      valueExpression: 'has(claims.tenant) ? claims.tenant : ""'
  claimValidationRules:
  - expression: '!has(claims.banned)'
    message: banned
  userValidationRules:
  - expression: '!user.username.startsWith("system:")'
    message: reserved
`

const authorizers = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: %s
    matchConditions:
    - expression: has(request.user) && (request.user == 'hooked' || request.user.endsWith(':hooked'))
- type: Node
  name: node
- type: RBAC
  name: rbac
`

// serve answers as issuer and as webhook.
func (o *outside) serve(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": o.URL, "jwks_uri": o.URL + "/keys"}
	case "/keys":
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: o.key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}}
	default:
		body, err := io.ReadAll(r.Body)
		var review map[string]any
		if err != nil || json.Unmarshal(body, &review) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		spec, _ := review["spec"].(map[string]any)
		if r.URL.Path == "/tokens" {
			review["status"] = reviewed(spec["token"])
		} else if review["status"] = mayDo(spec); review["status"] == nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answer = review
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // its caller may have left
}

// reviewed is the status of a TokenReview.
func reviewed(token any) any {
	switch token {
	case "hook-jim":
		return map[string]any{"authenticated": true, "user": map[string]any{
			"username": "jim", "uid": "7", "groups": []string{"ops"}, "extra": map[string]any{"a": []string{"b", "c"}},
		}}
	case "hook-hooked":
		return map[string]any{"authenticated": true, "user": map[string]any{"username": "hooked"}}
	case "hook-vault":
		return map[string]any{"authenticated": true, "audiences": []string{"vault"}, "user": map[string]any{"username": "x"}}
	}
	return map[string]any{"authenticated": false, "error": "who?"}
}

// mayDo is the status of a SubjectAccessReview; nil: an error.
func mayDo(spec map[string]any) any {
	resource, _ := spec["resourceAttributes"].(map[string]any)
	if verb, _ := resource["verb"].(string); strings.HasPrefix(verb, "impersonate") {
		return mayImpersonate(spec, verb, resource["name"])
	}
	switch resource["verb"] {
	case "list":
		return map[string]any{"allowed": true, "reason": "lists are fine"}
	case "delete":
		return map[string]any{"allowed": false, "denied": true, "reason": "never"}
	case "watch":
		return nil
	}
	return map[string]any{"allowed": false, "reason": "no opinion"}
}

// mayImpersonate is the status of a review of impersonation, with what is asked as the reason of a refusal; nil: an error.
func mayImpersonate(spec map[string]any, verb string, name any) any {
	switch {
	case verb == "impersonate-on:user-info:list" || verb == "impersonate-on:associated-node:list",
		verb == "impersonate:user-info" && (name == "jane" || name == "*"):
		return map[string]any{"allowed": true}
	case verb == "impersonate-on:user-info:watch":
		return nil
	}
	delete(spec, "uid") // each server has chosen its own
	asked, err := json.Marshal(spec)
	if err != nil {
		return nil
	}
	return map[string]any{"allowed": false, "reason": string(asked)}
}
