package gapless_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/gapless-io/gapless"
)

// issuer is an issuer of OpenID Connect tokens over TLS.
type issuer struct {
	*httptest.Server
	t      *testing.T
	key    *rsa.PrivateKey
	silent atomic.Bool // it answers nothing
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	i := &issuer{t: t, key: key}
	stopped := make(chan struct{})
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.silent.Load() {
			select {
			case <-stopped:
			case <-r.Context().Done():
			}
			return
		}
		var answer any = jose.JSONWebKeySet{
			Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}},
		}
		if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			answer = map[string]any{
				"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("encode as JSON: %v", err)
		}
	}))
	t.Cleanup(i.Close)
	t.Cleanup(func() { close(stopped) })
	return i
}

func (i *issuer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

// caFile returns a file with the CA of the issuer.
func (i *issuer) caFile() string {
	path := filepath.Join(i.t.TempDir(), "ca.pem")
	put(i.t, path, i.ca())
	return path
}

// token returns one that the issuer has signed, for the audience gapless, with changed claims.
func (i *issuer) token(change map[string]any) string {
	i.t.Helper()
	return i.signed(i.key, change)
}

func (i *issuer) signed(key *rsa.PrivateKey, change map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"},
	}, nil)
	if err != nil {
		i.t.Fatalf("make a signer: %v", err)
	}
	claims := map[string]any{
		"iss": i.URL, "aud": "gapless", "sub": "jane", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(claims, change)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		i.t.Fatalf("sign a token: %v", err)
	}
	return token
}

// put writes a file in one step, as who replaces a configuration should.
func put(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(body), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatalf("rename: %v", err)
	}
}

// until returns when a token is that of a user; "" is 401. Issuers are asked in the background, and files followed.
func (g *rig) until(token, want string) map[string]any {
	g.t.Helper()
	for {
		code, who := g.whoami(g.client(), bearer(token)...)
		if name, _ := who["username"].(string); name == want && (name == "") == (code == http.StatusUnauthorized) {
			return who
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-g.t.Context().Done():
			g.t.Fatalf("the token is never that of %q, but of %v (%d)", want, who, code)
		}
	}
}

func TestTokensOfTheIssuerOfTheFlagsIdentifyCallers(t *testing.T) {
	i := newIssuer(t)
	g := newRig(t, gapless.Authentication{Anonymous: true, OIDC: gapless.OIDC{
		IssuerURL: i.URL, ClientID: "gapless", CAFile: i.caFile(), GroupsClaim: "roles", GroupsPrefix: "oidc:",
		RequiredClaims: map[string]string{"tenant": "one"},
	}})
	good := map[string]any{"roles": []string{"dev"}, "tenant": "one"}
	who := g.until(i.token(good), i.URL+"#jane")
	if groups := fmt.Sprint(who["groups"]); groups != "[oidc:dev system:authenticated]" {
		t.Errorf("the groups are %s", groups)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	with := func(change map[string]any) map[string]any {
		all := maps.Clone(good)
		maps.Copy(all, change)
		return all
	}
	for name, token := range map[string]string{
		"another audience": i.token(with(map[string]any{"aud": "vault"})),
		"expired":          i.token(with(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})),
		"another issuer":   i.token(with(map[string]any{"iss": "https://127.0.0.1:1"})),
		"another tenant":   i.token(with(map[string]any{"tenant": "two"})),
		"no tenant":        i.token(map[string]any{}),
		"another key":      i.signed(other, good),
		"no signature":     i.token(good)[:strings.LastIndex(i.token(good), ".")+1],
	} {
		if code, who := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, code, who)
		}
	}
	review := g.admin("POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"spec":{"token":%q}}`, i.token(good)))
	if at(review, "status", "user", "username") != i.URL+"#jane" {
		t.Errorf("the review is %v", review)
	}
}

// configured returns an AuthenticationConfiguration that trusts an issuer.
func (i *issuer) configured(prefix string, more ...string) string {
	ca := strings.ReplaceAll(strings.TrimSpace(i.ca()), "\n", "\n      ")
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [gapless]
    certificateAuthority: |
      %s
  claimMappings:
    username:
      expression: '"%s" + claims.sub'
    groups:
      expression: 'has(claims.roles) ? claims.roles : []'
    extra:
    - key: example.org/tenant
      valueExpression: 'has(claims.tenant) ? claims.tenant : ""'
  claimValidationRules:
  - expression: '!has(claims.banned)'
    message: banned
  userValidationRules:
  - expression: '!user.username.startsWith("system:")'
    message: reserved
`, i.URL, ca, prefix) + strings.Join(more, "\n")
}

// TestTheFileOfIssuersCountsAnewWhenItChanges also leaves the former issuers when it is wrong, and when a new one is away.
func TestTheFileOfIssuersCountsAnewWhenItChanges(t *testing.T) {
	i, away := newIssuer(t), newIssuer(t)
	away.silent.Store(true)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	put(t, file, i.configured("one:"))
	g := newRig(t, gapless.Authentication{ConfigFile: file})
	claims := map[string]any{"roles": []string{"dev"}, "tenant": "t"}
	who := g.until(i.token(claims), "one:jane")
	if fmt.Sprint(who["groups"], at(who, "extra", "example.org/tenant")) != "[dev system:authenticated] [t]" {
		t.Errorf("the user is %v", who)
	}
	for name, change := range map[string]map[string]any{"a rule for claims": {"banned": true}} {
		if code, who := g.whoami(g.client(), bearer(i.token(change))...); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, code, who)
		}
	}
	put(t, file, "kind: Nonsense")
	put(t, file, i.configured("system:"))
	g.until(i.token(map[string]any{"n": 1}), "") // a rule for users, now that the name begins so
	put(t, file, away.configured("three:"))
	if code, _ := g.whoami(g.client(), bearer(away.token(nil))...); code != http.StatusUnauthorized {
		t.Errorf("a token of an issuer whose keys are not there: %d", code)
	}
	away.silent.Store(false)
	put(t, file, i.configured("two:"))
	g.until(i.token(map[string]any{"n": 2}), "two:jane")
}

// TestAnIssuerThatIsAwayStopsNothing starts while the issuer answers nothing.
func TestAnIssuerThatIsAwayStopsNothing(t *testing.T) {
	i := newIssuer(t)
	i.silent.Store(true)
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t), OIDC: gapless.OIDC{
		IssuerURL: i.URL, ClientID: "gapless", CAFile: i.caFile(),
	}})
	for token, want := range map[string]int{i.token(nil): http.StatusUnauthorized, "secret": http.StatusCreated} {
		if code, who := g.whoami(g.client(), bearer(token)...); code != want {
			t.Errorf("%.10s: %d %v, want %d", token, code, who, want)
		}
	}
}

func TestOnlyThePathsOfTheFileAreAnonymous(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous:\n"
	put(t, file, head+"  enabled: true\n  conditions:\n  - path: /livez\n")
	for name, c := range map[string]struct {
		anonymous string
		want      map[string]int
	}{
		"some": {
			"  enabled: true\n  conditions:\n  - path: /livez\n  - path: /api/v1/nodes\n",
			map[string]int{"/livez": 200, "/readyz": 401, "/version": 401, "/api/v1/nodes": 403, "/api/v1/pods": 401},
		},
		"all":  {"  enabled: true\n", map[string]int{"/livez": 200, "/version": 200, "/api/v1/nodes": 403, "/api/v1/pods": 403}},
		"none": {"  enabled: false\n", map[string]int{"/livez": 401, "/version": 401, "/api/v1/nodes": 401}},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, file, head+c.anonymous)
			g := newRig(t, gapless.Authentication{ConfigFile: file})
			for path, want := range c.want {
				if code, answer := g.do(g.client(), "GET", path, ""); code != want {
					t.Errorf("%s: %d %v, want %d", path, code, answer, want)
				}
			}
		})
	}
}

// TestWrongConfigurationOfCallersStopsTheStart names the file, the field and what is wrong.
func TestWrongConfigurationOfCallersStopsTheStart(t *testing.T) {
	i, dir := newIssuer(t), t.TempDir()
	file := func(name, body string) string {
		path := filepath.Join(dir, name)
		put(t, path, body)
		return path
	}
	right := i.configured("")
	ca := i.caFile()
	for name, c := range map[string]struct {
		a    gapless.Authentication
		want []string
	}{
		"no file": {gapless.Authentication{ConfigFile: filepath.Join(dir, "none")}, []string{"none", "no such file"}},
		"empty":   {gapless.Authentication{ConfigFile: file("empty", "")}, []string{"empty", "empty config data"}},
		"a typo": {
			gapless.Authentication{ConfigFile: file("typo", right+"wrong: 1\n")}, []string{"typo", `unknown field "wrong"`},
		},
		"no https": {
			gapless.Authentication{ConfigFile: file("http", strings.Replace(right, "https", "http", 1))},
			[]string{"http", "jwt[0].issuer.url", "URL scheme must be https"},
		},
		"an expression": {
			gapless.Authentication{ConfigFile: file("cel", strings.Replace(right, "claims.sub", "claims.sub +", 1))},
			[]string{"cel", "jwt[0].claimMappings.username.expression", "Syntax error"},
		},
		"the issuer of service accounts": {
			gapless.Authentication{ConfigFile: file("own", right), ServiceAccountIssuers: []string{i.URL}},
			[]string{"own", "jwt[0].issuer.url", "must not overlap"},
		},
		"a file and flags": {
			gapless.Authentication{ConfigFile: file("both", right), OIDC: gapless.OIDC{IssuerURL: i.URL, ClientID: "x"}},
			[]string{"mutually exclusive"},
		},
		"anonymous twice": {
			gapless.Authentication{ConfigFile: file("twice", right+"anonymous: {enabled: true}\n"), Anonymous: true},
			[]string{"twice", "--anonymous-auth flag cannot be set"},
		},
		"anonymous, and everything is allowed": {
			gapless.Authentication{ConfigFile: file("open", right+"anonymous: {enabled: true}\n")},
			[]string{"open", "anonymous.enabled", "AlwaysAllow"},
		},
		"half of the flags": {
			gapless.Authentication{OIDC: gapless.OIDC{ClientID: "x"}}, []string{"oidc-issuer-url and oidc-client-id"},
		},
		"an algorithm": {
			gapless.Authentication{
				OIDC: gapless.OIDC{IssuerURL: i.URL, ClientID: "x", CAFile: ca, SigningAlgs: []string{"none"}},
			},
			[]string{"oidc-signing-algs", "none"},
		},
		"a webhook": {
			gapless.Authentication{Webhook: gapless.TokenWebhook{ConfigFile: file("hook", "{}")}},
			[]string{"authentication-token-webhook-config-file", "hook"},
		},
		"a webhook's version": {
			gapless.Authentication{
				Webhook: gapless.TokenWebhook{ConfigFile: hookFile(t, "https://127.0.0.1:1", ""), Version: "v2"},
			},
			[]string{`"v2"`, "supported versions"},
		},
		"a proxy's CA": {
			gapless.Authentication{FrontProxy: gapless.FrontProxy{ClientCAFile: file("proxy", "x")}},
			[]string{"front proxies", "proxy", "no certificate"},
		},
		"a proxy of clients": {
			gapless.Authentication{ClientCAFile: ca, FrontProxy: gapless.FrontProxy{ClientCAFile: ca}},
			[]string{"--requestheader-allowed-names must be specified"},
		},
		"an empty header": {
			gapless.Authentication{FrontProxy: gapless.FrontProxy{ClientCAFile: ca, GroupHeaders: []string{" "}}},
			[]string{"requestheader-group-headers"},
		},
		"an expiration": {
			gapless.Authentication{ServiceAccountMaxTokenExpiration: time.Minute}, []string{"between 1 hour and 2^32 seconds"},
		},
	} {
		cfg := gapless.Config{Memory: true, Listen: "127.0.0.1:0", Authentication: c.a}
		if name == "anonymous, and everything is allowed" {
			cfg.AuthorizationMode = gapless.AuthorizationAlwaysAllow
		}
		err := tryRun(t, cfg)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", name, err, want)
			}
		}
	}
}
