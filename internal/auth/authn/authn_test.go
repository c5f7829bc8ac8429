package authn_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
)

// objects are the objects of a cluster.
type objects map[string]*wire.Object

func (o objects) Find(gr schema.GroupResource, key wire.Key) *wire.Object {
	return o[gr.String()+"/"+key.String()]
}

const issuer = "https://issuer.example"

func newCluster(t testing.TB) objects {
	t.Helper()
	account, err := wire.ParseObject(
		[]byte(
			`{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"robot","namespace":"ns","uid":"u1",`+
				`"resourceVersion":"1"}}`), nil)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	return objects{"serviceaccounts/ns/robot": account}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	return key
}

func newAuthenticator(t testing.TB, signing crypto.Signer, cluster authn.Objects) *authn.Authenticator {
	t.Helper()
	keys, err := authn.NewKeys(signing, nil)
	if err != nil {
		t.Fatalf("make the keys: %v", err)
	}
	return authn.New(authn.Config{Audiences: []string{issuer}, Accounts: authn.NewAccounts(authn.AccountsConfig{
		Keys: keys, Issuers: []string{issuer}, Audiences: []string{issuer}, Objects: cluster,
	})})
}

func issueToken(t testing.TB, a *authn.Authenticator) string {
	t.Helper()
	req := &authenticationv1.TokenRequest{}
	if err := a.Issue(t.Context(), wire.Key{Namespace: "ns", Name: "robot"}, req); err != nil {
		t.Fatalf("issue a token: %v", err)
	}
	return req.Status.Token
}

// TestAudiencesAreAList decodes a token with one audience: some readers take no text.
func TestAudiencesAreAList(t *testing.T) {
	token := issueToken(t, newAuthenticator(t, newKey(t), newCluster(t)))
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	var claims struct {
		Audience any    `json:"aud"`
		Subject  string `json:"sub"`
	}
	if err := json.Unmarshal(body, &claims); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	if fmt.Sprint(claims.Audience) != "["+issuer+"]" || claims.Subject != "system:serviceaccount:ns:robot" {
		t.Errorf("the claims are %s", body)
	}
}

func request(ctx context.Context, token string) *http.Request {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return (&http.Request{Header: h}).WithContext(ctx)
}

// TestATokenExpiresWhileItsSignatureIsKept uses a token until its hour and the minute of leeway are over.
func TestATokenExpiresWhileItsSignatureIsKept(t *testing.T) {
	key := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		a := newAuthenticator(t, key, newCluster(t))
		token := issueToken(t, a)
		for _, known := range []bool{true, true, false} {
			u, err := a.Authenticate(request(t.Context(), token))
			if (err == nil) != known || known && u.GetName() != "system:serviceaccount:ns:robot" {
				t.Errorf("after %v: %v, %v", time.Now(), u, err)
			}
			<-time.After(31 * time.Minute)
		}
	})
}

// TestAConnectionDoesNotOutliveItsCertificate asks with one TLS state before and after its end, and
// after its CA was withdrawn.
func TestAConnectionDoesNotOutliveItsCertificate(t *testing.T) {
	key := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		state := certified(t, key)
		trusted := true
		a := authn.New(authn.Config{Trusted: func(*x509.Certificate) bool { return trusted }})
		ask := func() int32 {
			r := request(t.Context(), "")
			r.TLS = state
			_, err := a.Authenticate(r)
			return wire.StatusOf(err).Code
		}
		if code := ask(); code != 200 {
			t.Errorf("valid: %d", code)
		}
		trusted = false
		if code := ask(); code != 401 {
			t.Errorf("its CA withdrawn: %d", code)
		}
		trusted = true
		<-time.After(2 * time.Hour)
		if code := ask(); code != 401 {
			t.Errorf("expired: %d", code)
		}
	})
}

// certified is the state of a connection with a certificate that is valid for an hour.
func certified(t testing.TB, key *ecdsa.PrivateKey) *tls.ConnectionState {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "jane", Organization: []string{"dev", "system:authenticated"}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("create a certificate: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("parse the certificate: %v", err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

func TestTokenFilesWithMistakesAreErrors(t *testing.T) {
	for body, want := range map[string]string{
		"a,b":                "line 1 has 2 columns",
		"a,b,c\na,d,e":       "line 2 has the token of an earlier line",
		"a,b,\"c":            "line 1, column",
		"a,b,c,\"x,y\",more": "",
		",b,c\n\nz,y,x":      "",
		"":                   "",
	} {
		_, err := authn.ParseTokens(strings.NewReader(body))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}

func FuzzTokenFile(f *testing.F) {
	for _, seed := range []string{"a,b,c", "a,b,c,\"d,e\"\n", "\xff,\"", ",,\n", "a,b\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		tokens, err := authn.ParseTokens(strings.NewReader(body))
		if err != nil {
			return
		}
		if _, known, err := tokens.AuthenticateToken(t.Context(), ""); known || err != nil {
			t.Errorf("the empty token is known: %v", err)
		}
	})
}

// FuzzToken changes tokens: only the one that was issued names a user.
func FuzzToken(f *testing.F) {
	keys, err := authn.NewKeys(newKey(f), nil)
	if err != nil {
		f.Fatalf("make the keys: %v", err)
	}
	accounts := authn.NewAccounts(authn.AccountsConfig{
		Keys: keys, Issuers: []string{issuer}, Audiences: []string{issuer}, Objects: newCluster(f),
	})
	req := &authenticationv1.TokenRequest{}
	if err := accounts.Issue(f.Context(), wire.Key{Namespace: "ns", Name: "robot"}, req); err != nil {
		f.Fatalf("issue a token: %v", err)
	}
	issued := strings.Split(req.Status.Token, ".")
	f.Add(issued[0], issued[1], issued[2])
	f.Add("eyJhbGciOiJub25lIn0", issued[1], "")
	f.Add("{", "e30", "AA")
	f.Add(issued[0], "eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiZXhwIjotMWU5OX0", issued[2])
	f.Fuzz(func(t *testing.T, header, payload, signature string) {
		token := header + "." + payload + "." + signature
		_, err := keys.Verify(token, []string{issuer})
		if same := header == issued[0] && payload == issued[1]; err == nil && !same {
			t.Errorf("a forged token is valid: %s", token)
		}
		lines := []string{header + "," + payload, signature}
		_, _, _ = authn.TokenOf(lines) // it must not panic
	})
}

// BenchmarkAuthenticate measures what knowing a caller costs per request.
func BenchmarkAuthenticate(b *testing.B) {
	a := newAuthenticator(b, newKey(b), newCluster(b))
	token := issueToken(b, a)
	state := certified(b, newKey(b))
	run := func(name string, prepare func(r *http.Request)) {
		b.Run(name, func(b *testing.B) {
			r := request(b.Context(), "")
			b.ReportAllocs()
			for b.Loop() {
				prepare(r)
				if _, err := a.Authenticate(r); err != nil {
					b.Fatalf("authenticate: %v", err)
				}
			}
		})
	}
	run("certificate", func(r *http.Request) { r.TLS = state })
	run("cached token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	b.Run("new token", func(b *testing.B) {
		cluster := newCluster(b)
		key := newKey(b)
		issuing := newAuthenticator(b, key, cluster)
		token := issueToken(b, issuing)
		for b.Loop() {
			fresh := newAuthenticator(b, key, cluster) // without what another has kept
			if _, err := fresh.Authenticate(request(b.Context(), token)); err != nil {
				b.Fatalf("authenticate: %v", err)
			}
		}
	})
}
