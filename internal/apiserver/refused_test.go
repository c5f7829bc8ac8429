package apiserver_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/auth/authn"
)

// withTokens returns an authenticator that knows administrators by certificate, and jane, who may do
// nothing, by the token "secret".
func withTokens(t testing.TB, anonymous bool) *authn.Authenticator {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(path, []byte("secret,jane,7\n"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	tokens, err := authn.ReadTokens(path)
	if err != nil {
		t.Fatalf("read tokens: %v", err)
	}
	return authn.New(authn.Config{Tokens: tokens, Anonymous: anonymous})
}

// TestARefusalDoesNotSayWhatIsServed compares the refusals of what is served, also with a warning for
// who may read it, with that of what is not.
func TestARefusalDoesNotSayWhatIsServed(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		d := openServer(t, func(cfg *apiserver.Config) { cfg.Authenticator = withTokens(t, anonymous) })
		d.define("foos", `"kind":"Foo"`, "", `"deprecated":true,"deprecationWarning":"a secret project",`+anySchema)
		if a := d.do("GET", "/apis/t.example.com/v1/foos", ""); !strings.Contains(a.Header.Get("Warning"), "secret project") {
			t.Errorf("who may read it gets the warning %v", a.Header)
		}
		for _, headers := range [][]string{nil, {"Authorization: Bearer secret"}, {"Authorization: Bearer wrong"}} {
			for _, method := range []string{"GET", "PATCH", "OPTIONS"} {
				for _, more := range []string{"", "?watch=1", "?resourceVersion=x", "/a", "/a/nothing"} {
					say := func(plural string) (int, http.Header, string) {
						a := d.by(d.client(2), method, "/apis/t.example.com/v1/namespaces/default/"+plural+more, "", headers...)
						h := maps.Clone(map[string][]string(a.Header))
						delete(h, "Audit-Id")
						delete(h, "Date")
						return a.StatusCode, h, strings.ReplaceAll(a.body, plural, "PLURAL")
					}
					code, header, body := say("foos")
					otherCode, otherHeader, otherBody := say("bars")
					if code != otherCode || body != otherBody ||
						!maps.EqualFunc(header, otherHeader, func(a, b []string) bool {
							return strings.Join(a, ",") == strings.Join(b, ",")
						}) {
						t.Errorf("%s foos%s by %v: %d %v %s\nand what is not served: %d %v %s",
							method, more, headers, code, header, body, otherCode, otherHeader, otherBody)
					}
					if code != http.StatusUnauthorized && code != http.StatusForbidden {
						t.Errorf("%s foos%s by %v: %d", method, more, headers, code)
					}
				}
			}
		}
	}
}

// TestReasonsOfHealthChecksAreForWhoIsKnown asks as nobody, as the anonymous user, and by token, which
// is removed from the request when it has been looked at.
func TestReasonsOfHealthChecksAreForWhoIsKnown(t *testing.T) {
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"))
	if err != nil {
		t.Fatalf("parse the policy: %v", err)
	}
	for _, anonymous := range []bool{false, true} {
		for _, audited := range []bool{false, true} {
			d := openServer(t, func(cfg *apiserver.Config) {
				cfg.Authenticator = withTokens(t, anonymous)
				cfg.Checks = []apiserver.Check{{Name: "etcd", Check: func() error { return errors.New("/var/lib is full") }}}
				if !audited {
					return
				}
				if cfg.Audit, err = audit.Open(policy, audit.Options{Path: "-", Stdout: io.Discard}); err != nil {
					t.Fatalf("open the audit log: %v", err)
				}
			})
			for token, known := range map[string]bool{"": false, "wrong": false, "secret": true} {
				a := d.by(d.client(1), "GET", "/livez", "", "Authorization: Bearer "+token)
				if a.StatusCode != http.StatusInternalServerError || strings.Contains(a.body, "/var/lib") != known {
					t.Errorf("anonymous %v, audited %v, token %q: %d %s", anonymous, audited, token, a.StatusCode, a.body)
				}
			}
			// What is open to everybody is not open as somebody else.
			if a := d.by(d.client(1), "GET", "/livez", "", "Authorization: Bearer secret",
				"Impersonate-User: root"); a.StatusCode != http.StatusForbidden {
				t.Errorf("by impersonation without the right: %d %s", a.StatusCode, a.body)
			}
		}
	}
}

// TestPrivateHealthNeedsCredentials is kube-apiserver's --anonymous-auth=false.
func TestPrivateHealthNeedsCredentials(t *testing.T) {
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.PrivateHealth, cfg.Authenticator = true, withTokens(t, false)
	})
	for _, path := range []string{"/livez", "/livez/ping", "/readyz?verbose", "/healthz", "/version"} {
		if a := d.by(d.client(2), "GET", path, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s by nobody: %d %s", path, a.StatusCode, a.body)
		}
		if a := d.by(d.client(2), "GET", path, "", "Authorization: Bearer secret"); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s by a user without roles: %d %s", path, a.StatusCode, a.body)
		}
		if a := d.do("GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("%s by the administrator: %d %s", path, a.StatusCode, a.body)
		}
	}
}

// TestCustomResourcesOfTheGroupsOfReviewsAreStored defines one in a group whose own kinds are
// answered and not stored.
func TestCustomResourcesOfTheGroupsOfReviewsAreStored(t *testing.T) {
	d := openServer(t, nil)
	a := d.do("POST", definitions,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.authentication.k8s.io",
"annotations":{"api-approved.kubernetes.io":"unapproved, a test"}},"spec":{"group":"authentication.k8s.io","scope":"Cluster",`+
			`"names":{"plural":"foos","kind":"Foo"},
"versions":[{"name":"v1","served":true,"storage":true,`+anySchema+`}]}}`)
	if a.StatusCode != http.StatusCreated {
		t.Fatal(a.body)
	}
	if a := d.do("POST", "/apis/authentication.k8s.io/v1/foos",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"Foo","metadata":{"name":"a"}}`); a.StatusCode != http.StatusCreated {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
