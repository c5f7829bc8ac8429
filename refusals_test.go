package gapless_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

// raw sends the first lines of a request as they are, over a connection of its own.
func (g *rig) raw(lines string, certs ...tls.Certificate) string {
	g.t.Helper()
	dialer := tls.Dialer{
		Config: &tls.Config{RootCAs: g.ca, Certificates: certs, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12},
	}
	conn, err := dialer.DialContext(g.t.Context(), "tcp", strings.TrimPrefix(g.url, "https://"))
	if err != nil {
		g.t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s\r\nHost: gapless\r\nConnection: close\r\n\r\n", lines); err != nil {
		g.t.Fatalf("print: %v", err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		g.t.Fatalf("read to the end: %v", err)
	}
	return string(answer)
}

// user returns a certificate of a user whose ClusterRole has the rules, none for "".
func (g *rig) user(name, rules string) tls.Certificate {
	g.t.Helper()
	cert, _ := issue(g.t, g.authority(), func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name} })
	if rules == "" {
		return cert
	}
	const path = "/apis/rbac.authorization.k8s.io/v1/"
	g.admin("POST", path+"clusterroles", fmt.Sprintf(`{"metadata":{"name":%q},"rules":%s}`, name, rules))
	g.admin("POST", path+"clusterrolebindings",
		fmt.Sprintf(`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, name, name, name))
	return cert
}

// TestPathsAreReadTheSameForPermissionsAndAnswers asks for secrets by paths that two readers could
// read differently: as nobody, as a user who may do everything with paths, and as one who may do
// everything with other resources.
func TestPathsAreReadTheSameForPermissionsAndAnswers(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	g.admin("POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"stringData":{"k":"hidden"}}`)
	g.admin("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"c"}}`)
	ofPaths := g.user("paths", `[{"nonResourceURLs":["*"],"verbs":["*"]}]`)
	ofOthers := g.user("others",
		`[{"apiGroups":["","apps"],"resources":["configmaps","watch","namespaces","..",".","proxy"],"verbs":["*"]}]`)
	for _, first := range []string{
		"GET /api/v1/secrets", "GET //api/v1/secrets", "GET /api//v1/secrets", "GET /api/v1//secrets", "GET /api/v1/secrets/",
		"GET /api/v1/namespaces//secrets",
		"GET /API/v1/secrets", "GET /api/V1/secrets", "GET /%61pi/v1/secrets", "GET /api%2Fv1/secrets", "GET /api/v1%2fsecrets",
		"GET /api/v1/./secrets",
		"GET /version/../api/v1/secrets", "GET /livez/../api/v1/secrets", "GET /livez/%2e%2e/api/v1/secrets",
		"GET /livez%2f..%2fapi/v1/secrets",
		"GET /api/v1/namespaces/default/configmaps/../secrets", "GET /api/v1/namespaces/default/configmaps/c/../../secrets/s",
		"GET /api/v1/namespaces/default/configmaps/..%2Fsecrets", "GET /api/v1/namespaces/default/configmaps%2F..%2Fsecrets%2Fs",
		"GET /api/v1/namespaces/default/configmaps/c%00/../../secrets/s", "GET /api/v1/namespaces/default/configmaps;/../secrets",
		"GET /api/v1/watch/secrets", "GET /api/v1/watch/namespaces/default/secrets/s", "GET /api/v1/proxy/secrets",
		"GET /api/v1/watch/../secrets",
		"GET /api/v1/namespaces/default/secrets/s?watch=1", "GET /api/v1/secrets?watch=1&watch=0",
		"GET /api/v1/secrets?fieldSelector=metadata.name%3Ds",
		"GET /api/v1/secrets?fieldSelector=metadata.name%3Dc&fieldSelector=metadata.name%3Ds",
		"GET http://gapless/api/v1/secrets", "GET http://gapless",
		"HEAD /api/v1/secrets", "OPTIONS /api/v1/secrets", "CONNECT gapless:443",
		"POST /api/v1/secrets HTTP/1.1\r\nX-Http-Method-Override: GET",
		"POST /livez HTTP/1.1\r\nX-Http-Method-Override: GET",
		"GET /livez HTTP/1.1\r\nX-Original-Url: /api/v1/secrets\r\nX-Rewrite-Url: /api/v1/secrets",
		"GET /api/v1/secrets?access_token=x&user=gapless-admin",
	} {
		if !strings.Contains(first, " HTTP/1.1") {
			first += " HTTP/1.1"
		}
		for name, certs := range map[string][]tls.Certificate{"nobody": nil, "paths": {ofPaths}, "others": {ofOthers}} {
			answer := g.raw(first, certs...)
			if strings.Contains(answer, "aGlkZGVu") || strings.Contains(answer, "SecretList") ||
				strings.Contains(answer, `"kind":"Secret"`) {
				t.Errorf("%q by %s: %s", first, name, answer)
			}
			status, _, _ := strings.Cut(answer, "\r\n")
			if refused := strings.Contains(status, " 4"); !refused && !strings.Contains(first, "/livez HTTP") {
				t.Errorf("%q by %s: %s", first, name, answer)
			}
		}
	}
}

// TestTheFirstCredentialDecides sends several, also in forms that are not understood.
func TestTheFirstCredentialDecides(t *testing.T) {
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t)})
	bob := g.user("bob", "")
	for _, c := range []struct {
		lines  string
		certs  []tls.Certificate
		answer string
	}{
		{"Authorization: bearer master", nil, " 200 "},
		{"Authorization: BEARER master", nil, " 200 "},
		{"Authorization: Bearer wrong\r\nAuthorization: Bearer master", nil, " 401 "},
		{"Authorization: Bearer secret\r\nAuthorization: Bearer master", nil, `User \"jane\"`},
		{"Authorization: Bearer wrong, Bearer master", nil, " 401 "},
		{"Authorization: Bearer\tmaster", nil, " 401 "},
		{"Authorization: Bearer%20master", nil, " 401 "},
		{"Authorization: Token master", nil, " 401 "},
		{"Proxy-Authorization: Bearer master", nil, " 401 "},
		{"Cookie: token=master; Authorization=Bearer master", nil, " 401 "},
		{"Authorization: Bearer master", []tls.Certificate{bob}, `User \"bob\"`},
		{"Authorization: Bearer wrong", []tls.Certificate{bob}, `User \"bob\"`},
		{"Authorization: Bearer master\r\nImpersonate-User: joe", nil, `User \"joe\"`},
		{"Authorization: Bearer master\r\nimpersonate-user: joe", nil, `User \"joe\"`},
		{"Authorization: Bearer secret\r\nIMPERSONATE-USER: root", nil, `User \"jane\" cannot impersonate`},
		{"Authorization: Bearer master\r\nImpersonate-User: joe\r\nimpersonate-user: root", nil, "must have one value"},
		// not the header: what a proxy makes of it is its business
		{"Authorization: Bearer master\r\nImpersonate_User: joe", nil, " 200 "},
	} {
		if answer := g.raw("GET /api/v1/namespaces HTTP/1.1\r\n"+c.lines, c.certs...); !strings.Contains(answer, c.answer) {
			t.Errorf("%q: %s\nwant %s", c.lines, answer, c.answer)
		}
	}
}

// TestNobodyIsAnonymousWhereEverythingIsAllowed is upstream's rule for the mode AlwaysAllow.
func TestNobodyIsAnonymousWhereEverythingIsAllowed(t *testing.T) {
	s := launch(t, gapless.Config{
		AuthorizationMode: gapless.AuthorizationAlwaysAllow, Authentication: gapless.Authentication{Anonymous: true},
	})
	g := &rig{t: t, url: s.RESTConfig().Host, ca: x509.NewCertPool()}
	g.ca.AppendCertsFromPEM(s.RESTConfig().CAData)
	if code, answer := g.do(g.client(), "GET", "/api/v1/secrets", ""); code != http.StatusUnauthorized {
		t.Errorf("%d %v", code, answer)
	}
}
