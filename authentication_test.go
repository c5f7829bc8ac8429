package gapless_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gapless-io/gapless"
)

// rig is a server over real sockets, and its administrator.
type rig struct {
	t   *testing.T
	dir string
	url string
	ca  *x509.CertPool
	own tls.Certificate

	server launched
}

func newRig(t *testing.T, a gapless.Authentication) *rig {
	t.Helper()
	return newRigOf(t, gapless.Config{Authentication: a, Bootstrap: gapless.BootstrapCluster})
}

// newRigOf is newRig with a configuration, which has no directory.
func newRigOf(t *testing.T, config gapless.Config) *rig {
	t.Helper()
	g := &rig{t: t, dir: t.TempDir(), ca: x509.NewCertPool()}
	config.DataDir = g.dir
	g.server = launch(t, config)
	cfg := g.server.RESTConfig()
	g.url = cfg.Host
	g.ca.AppendCertsFromPEM(cfg.CAData)
	var err error
	if g.own, err = tls.X509KeyPair(cfg.CertData, cfg.KeyData); err != nil {
		t.Fatalf("read the key pair: %v", err)
	}
	return g
}

// client returns a client with certificates, or without.
func (g *rig) client(certs ...tls.Certificate) *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: g.ca, MinVersion: tls.VersionTLS12, Certificates: certs},
		ForceAttemptHTTP2: true,
	}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// do sends a request with headers, in pairs of name and value.
func (g *rig) do(c *http.Client, method, path, body string, headers ...string) (int, map[string]any) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatalf("make a request: %v", err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("read to the end: %v", err)
	}
	var tree map[string]any
	_ = json.Unmarshal(text, &tree) // not all is JSON
	return resp.StatusCode, tree
}

func (g *rig) admin(method, path, body string, headers ...string) map[string]any {
	g.t.Helper()
	code, tree := g.do(g.client(g.own), method, path, body, headers...)
	if code >= 300 {
		g.t.Fatalf("%s %s: %d %v", method, path, code, tree)
	}
	return tree
}

const reviewSelf = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// whoami returns how the server answers a request with headers, and as which user.
func (g *rig) whoami(c *http.Client, headers ...string) (int, map[string]any) {
	g.t.Helper()
	code, tree := g.do(c, "POST", reviewSelf, "{}", headers...)
	who, _ := at(tree, "status", "userInfo").(map[string]any)
	return code, who
}

func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// token requests a token of the ServiceAccount default of the namespace default.
func (g *rig) token(spec string) string {
	g.t.Helper()
	answer := g.admin("POST", defaultAccount+"/token", `{"spec":`+spec+`}`)
	token, _ := at(answer, "status", "token").(string)
	if token == "" {
		g.t.Fatalf("no token in %v", answer)
	}
	return token
}

// account waits for the ServiceAccount default, and returns its UID.
func (g *rig) account() string {
	g.t.Helper()
	for {
		code, tree := g.do(g.client(g.own), "GET", defaultAccount, "")
		if code == http.StatusOK {
			uid, _ := at(tree, "metadata", "uid").(string)
			return uid
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-g.t.Context().Done():
			g.t.Fatal("there is no ServiceAccount default")
		}
	}
}

const defaultAccount = "/api/v1/namespaces/default/serviceaccounts/default"

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// segment is one part of a token.
func segment(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// es256 signs for a JWT.
func es256(key *ecdsa.PrivateKey) func(input string) []byte {
	return func(input string) []byte {
		hash := sha256.Sum256([]byte(input))
		r, s, err := ecdsa.Sign(rand.Reader, key, hash[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
}

func forge(header, claims map[string]any, sign func(string) []byte) string {
	input := segment(header) + "." + segment(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

// TestForgedAndForeignTokensAreUnauthorized makes each from a token that is accepted, by one change.
func TestForgedAndForeignTokensAreUnauthorized(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	uid := g.account()
	pemKey, err := os.ReadFile(filepath.Join(g.dir, "pki", "sa.key"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	block, _ := pem.Decode(pemKey)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatalf("parse EC private key: %v", err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatalf("marshal PKIX public key: %v", err)
	}
	now := time.Now().Unix()
	claims := func(change map[string]any) map[string]any {
		c := map[string]any{
			"iss": gapless.DefaultServiceAccountIssuer, "aud": []string{gapless.DefaultServiceAccountIssuer},
			"sub": "system:serviceaccount:default:default",
			"iat": now, "nbf": now, "exp": now + 3600,
			"kubernetes.io": map[string]any{
				"namespace": "default", "serviceaccount": map[string]any{"name": "default", "uid": uid},
			},
		}
		maps.Copy(c, change)
		return c
	}
	header := map[string]any{"alg": "ES256"}
	good := forge(header, claims(nil), es256(key))
	parts := strings.Split(good, ".")
	mac := func(secret []byte) func(string) []byte {
		return func(input string) []byte {
			h := hmac.New(sha256.New, secret)
			h.Write([]byte(input))
			return h.Sum(nil)
		}
	}
	nothing := func(string) []byte { return nil }
	account := func(namespace, name, uid string) map[string]any {
		return map[string]any{
			"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": name, "uid": uid}},
		}
	}
	if code, who := g.whoami(g.client(), bearer(good)...); code != http.StatusCreated ||
		who["username"] != "system:serviceaccount:default:default" {
		t.Fatalf("the token that the others are made of: %d %v", code, who)
	}
	for name, token := range map[string]string{
		"empty claims":               segment(header) + ".." + parts[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"two parts":                  parts[0] + "." + parts[1],
		"the algorithm none":         forge(map[string]any{"alg": "none"}, claims(nil), nothing),
		"the algorithm NONE, signed": forge(map[string]any{"alg": "NONE"}, claims(nil), es256(key)),
		"HS256 with the public key":  forge(map[string]any{"alg": "HS256"}, claims(nil), mac(public)),
		"HS256 with the public key in PEM": forge(map[string]any{"alg": "HS256"}, claims(nil),
			mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))),
		"another key":    forge(header, claims(nil), es256(other)),
		"another key ID": forge(map[string]any{"alg": "ES256", "kid": "x"}, claims(nil), es256(key)),
		"its own key in the header": forge(map[string]any{"alg": "ES256", "jwk": jose.JSONWebKey{Key: other.Public()}},
			claims(nil), es256(other)),
		"other claims, old signature": parts[0] + "." + segment(claims(account("kube-system", "default", uid))) + "." +
			parts[2],
		"expired":                      forge(header, claims(map[string]any{"exp": now - 3600}), es256(key)),
		"not yet valid":                forge(header, claims(map[string]any{"nbf": now + 3600}), es256(key)),
		"issued in the future":         forge(header, claims(map[string]any{"iat": now + 3600}), es256(key)),
		"another audience":             forge(header, claims(map[string]any{"aud": []string{"vault"}}), es256(key)),
		"another issuer":               forge(header, claims(map[string]any{"iss": "https://example.org"}), es256(key)),
		"no issuer":                    forge(header, claims(map[string]any{"iss": ""}), es256(key)),
		"an account that is not there": forge(header, claims(account("default", "nobody", uid)), es256(key)),
		"a UID of a former account":    forge(header, claims(account("default", "default", "1")), es256(key)),
		"bound to a webhook configuration": forge(header, claims(map[string]any{"kubernetes.io": map[string]any{
			"namespace": "default", "serviceaccount": map[string]any{"name": "default", "uid": uid},
			"validatingwebhookconfiguration": map[string]any{"name": "x", "uid": "1"},
		}}), es256(key)),
		"no account":             forge(header, claims(map[string]any{"kubernetes.io": map[string]any{}}), es256(key)),
		"claims of a wrong type": forge(header, claims(map[string]any{"exp": "soon"}), es256(key)),
		"not UTF-8":              "\xff\xfe.\xff.\xff",
		"huge":                   strings.Repeat("a", 40<<10) + "." + parts[1] + "." + parts[2],
		"JSON":                   `{"payload":"` + parts[1] + `"}`,
	} {
		for _, headers := range [][]string{bearer(token), {"Authorization", "bearer  " + token}} {
			if code, who := g.whoami(g.client(), headers...); code != http.StatusUnauthorized {
				t.Errorf("%s: %d %v", name, code, who)
			}
		}
	}
	// A certificate is asked before the token, which does not matter then, as upstream.
	if code, who := g.whoami(g.client(g.own), bearer("x")...); code != http.StatusCreated || who["username"] != "gapless-admin" {
		t.Errorf("a certificate and a bad token: %d %v", code, who)
	}
}

// TestATokenEndsWithTheObjectsThatItIsBoundTo deletes each of them, and uses the token before and after.
func TestATokenEndsWithTheObjectsThatItIsBoundTo(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	first := g.account()
	const namespaced = "/api/v1/namespaces/default/"
	for _, c := range []struct{ kind, collection, name, body, extra string }{
		{"Secret", namespaced + "secrets", "s", `{"metadata":{"name":"s"}}`, ""},
		{"Node", "/api/v1/nodes", "n", `{"metadata":{"name":"n"}}`, "authentication.kubernetes.io/node-name"},
		{
			"Pod", namespaced + "pods", "p",
			`{"metadata":{"name":"p"},"spec":{"serviceAccountName":"default","terminationGracePeriodSeconds":0,` +
				`"containers":[{"name":"c","image":"c"}]}}`, "authentication.kubernetes.io/pod-name",
		},
	} {
		t.Run(c.kind, func(t *testing.T) {
			uid := at(g.admin("POST", c.collection, c.body, "Content-Type", "application/json"), "metadata", "uid")
			ref := fmt.Sprintf(`{"boundObjectRef":{"apiVersion":"v1","kind":%q,"name":%q,"uid":%q}}`, c.kind, c.name, uid)
			token := g.token(ref)
			code, who := g.whoami(g.client(), bearer(token)...)
			if code != http.StatusCreated || c.extra != "" && at(who, "extra", c.extra) == nil ||
				at(who, "extra", "authentication.kubernetes.io/credential-id") == nil {
				t.Errorf("with the object: %d %v", code, who)
			}
			g.admin("DELETE", c.collection+"/"+c.name+"?gracePeriodSeconds=0", "")
			if code, _ := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
				t.Errorf("after the deletion: %d", code)
			}
			g.admin("POST", c.collection, c.body, "Content-Type", "application/json")
			if code, _ := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
				t.Errorf("with another object of the name: %d", code)
			}
			if code, answer := g.do(g.client(g.own), "POST", defaultAccount+"/token",
				`{"spec":`+ref+`}`); code != http.StatusConflict {
				t.Errorf("a token for the former UID: %d %v", code, answer)
			}
		})
	}
	token := g.token(`{}`)
	code, who := g.whoami(g.client(), bearer(token)...)
	groups := fmt.Sprint(who["groups"])
	if code != http.StatusCreated || who["uid"] != first ||
		groups != "[system:serviceaccounts system:serviceaccounts:default system:authenticated]" {
		t.Errorf("%d %v", code, who)
	}
	g.admin("DELETE", defaultAccount, "")
	if code, _ := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
		t.Errorf("after the deletion of the account: %d", code)
	}
	g.account() // another one, from the bootstrap controller
	if code, _ := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
		t.Errorf("with another account of the name: %d", code)
	}
}

func TestTokenRequestsAreCheckedAsUpstream(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	g.account()
	g.admin("POST", "/api/v1/namespaces/kube-system/secrets", `{"metadata":{"name":"elsewhere"}}`)
	for _, c := range []struct {
		path, body string
		code       int
		text       string
	}{
		{
			defaultAccount, `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"elsewhere"}}}`, 404,
			`secrets "elsewhere" not found`,
		},
		{defaultAccount, `{"spec":{"expirationSeconds":599}}`, 422, "may not specify a duration less than 10 minutes"},
		{defaultAccount, `{"spec":{"expirationSeconds":4294967297}}`, 422, "may not specify a duration larger than 2^32 seconds"},
		{defaultAccount, `{"spec":{"expirationSeconds":4294967296}}`, 201, ""},
		{defaultAccount, `{"metadata":{"name":"x"}}`, 422, "must match the service account name if specified"},
		{defaultAccount, `{"metadata":{"namespace":"x"}}`, 422, "must match the service account namespace if specified"},
		{defaultAccount, `{"metadata":{"uid":"x"}}`, 409, "does not match the UID of the service account"},
		{defaultAccount, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"x"}}}`, 404, `pods "x" not found`},
		{
			defaultAccount, `{"spec":{"boundObjectRef":{"kind":"ConfigMap","apiVersion":"v1","name":"x"}}}`, 400,
			"cannot bind token to object of type /v1, Kind=ConfigMap",
		},
		{
			strings.Replace(defaultAccount, "accounts/default", "accounts/nobody", 1), `{}`, 404,
			`serviceaccounts "nobody" not found`,
		},
		{defaultAccount, `{"spec":{"audiences":["vault"]}}`, 201, ""},
		{defaultAccount, `[]`, 400, ""},
		{defaultAccount, `{"kind":"Pod","apiVersion":"v1"}`, 400, ""},
	} {
		code, answer := g.do(g.client(g.own), "POST", c.path+"/token", c.body)
		text, _ := answer["message"].(string)
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s: %d %v, want %d %q", c.path, c.body, code, answer, c.code, c.text)
		}
	}
	pod := `{"metadata":{"name":"q"},"spec":{"serviceAccountName":"other","containers":[{"name":"c","image":"c"}]}}`
	g.admin("POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"other"}}`)
	g.admin("POST", "/api/v1/namespaces/default/pods", pod)
	code, answer := g.do(g.client(g.own), "POST", defaultAccount+"/token",
		`{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"q"}}}`)
	if text, _ := answer["message"].(string); code != 400 ||
		!strings.Contains(text, "to pod running with different serviceaccount name") {
		t.Errorf("%d %v", code, answer)
	}
}

// TestTokenReviewsSayWhatTheServerWouldDo reviews tokens for several audiences.
func TestTokenReviewsSayWhatTheServerWouldDo(t *testing.T) {
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t), Anonymous: true})
	g.account()
	review := func(token, audiences string) map[string]any {
		t.Helper()
		body := fmt.Sprintf(`{"spec":{"token":%q,"audiences":%s}}`, token, audiences)
		status, _ := at(g.admin("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body), "status").(map[string]any)
		return status
	}
	own, vault := g.token(`{}`), g.token(`{"audiences":["vault","other"]}`)
	for _, c := range []struct {
		token, audiences string
		known            bool
		answered         string
	}{
		{own, "[]", true, "[" + gapless.DefaultServiceAccountIssuer + "]"},
		{own, `["vault"]`, false, "<nil>"},
		{vault, "[]", false, "<nil>"},
		{vault, `["vault","x"]`, true, "[vault]"},
		{"secret", "[]", true, "[" + gapless.DefaultServiceAccountIssuer + "]"},
		{"secret", `["vault"]`, false, "<nil>"},
		{"wrong", "[]", false, "<nil>"},
		{" ", "[]", false, "<nil>"},
	} {
		status := review(c.token, c.audiences)
		if known, _ := status["authenticated"].(bool); known != c.known || fmt.Sprint(status["audiences"]) != c.answered ||
			known == (at(status, "user", "username") == nil) {
			t.Errorf("%.20s for %s: %v", c.token, c.audiences, status)
		}
	}
	if code, _ := g.do(g.client(g.own), "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{}}`); code != 400 {
		t.Errorf("a review of nothing: %d", code)
	}
	if code, _ := g.whoami(g.client(), bearer(vault)...); code != http.StatusUnauthorized {
		t.Errorf("a token for others: %d", code)
	}
}

func tokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.csv")
	body := "secret,jane,7,\"dev,ops\"\nmaster,root,,system:masters\nplain,joe,8\ntwice,jim,9,system:authenticated\n"
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return path
}

// TestBearerTokensAndAnonymousFollowUpstreamsUnion sends each kind of credential, by header and as a
// subprotocol.
func TestBearerTokensAndAnonymousFollowUpstreamsUnion(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t), Anonymous: anonymous})
		nobody := http.StatusUnauthorized
		if anonymous {
			nobody = http.StatusForbidden // known as nobody, who may do nothing
		}
		protocol := func(token string) string {
			return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
		}
		socket := func(protocols ...string) []string {
			headers := []string{
				"Upgrade", "websocket", "Connection", "Upgrade", "Sec-Websocket-Version", "13", "Sec-Websocket-Key",
				"MDEyMzQ1Njc4OWFiY2RlZg==",
			}
			for _, p := range protocols {
				headers = append(headers, "Sec-Websocket-Protocol", p)
			}
			return headers
		}
		for _, c := range []struct {
			name    string
			headers []string
			code    int
		}{
			{"nothing", nil, nobody},
			{"a token", bearer("master"), http.StatusOK},
			{"a token of another user", bearer("secret"), http.StatusForbidden},
			{"a bad token", bearer("wrong"), http.StatusUnauthorized},
			{"an empty token", []string{"Authorization", "Bearer "}, nobody},
			{"another scheme", []string{"Authorization", "Basic bWFzdGVy"}, nobody},
			{"a subprotocol", socket("v1", protocol("master")), http.StatusOK},
			{"a bad subprotocol", socket("v1", protocol("wrong")), http.StatusUnauthorized},
			{"two subprotocols", socket("v1", protocol("master"), protocol("master")), http.StatusUnauthorized},
			{"no other subprotocol", socket(protocol("master")), http.StatusUnauthorized},
			{"not base64", socket("v1", "base64url.bearer.authorization.k8s.io.!"), http.StatusUnauthorized},
			{"not UTF-8", socket("v1", protocol("\xff")), http.StatusUnauthorized},
			{"a subprotocol without a handshake", []string{"Sec-Websocket-Protocol", protocol("master") + ",v1"}, nobody},
		} {
			client := g.client()
			transport, _ := client.Transport.(*http.Transport)
			transport.ForceAttemptHTTP2 = false
			if code, answer := g.do(client, "GET", "/api/v1/namespaces", "", c.headers...); code != c.code {
				t.Errorf("anonymous %v, %s: %d %v, want %d", anonymous, c.name, code, answer, c.code)
			}
		}
		for _, token := range []string{"secret", "plain", "twice"} {
			code, who := g.whoami(g.client(), bearer(token)...)
			if n := strings.Count(fmt.Sprint(who["groups"]), "system:authenticated"); code != http.StatusCreated || n != 1 {
				t.Errorf("%s: %d %v", token, code, who)
			}
		}
		if code, _ := g.do(g.client(), "GET", "/livez", ""); code != http.StatusOK {
			t.Errorf("health: %d", code)
		}
	}
}
