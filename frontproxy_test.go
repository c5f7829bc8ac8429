package gapless_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// TestAFrontProxyNamesCallersInHeaders sends the headers with each kind of certificate.
func TestAFrontProxyNamesCallersInHeaders(t *testing.T) {
	further, proxies := newAuthority(t, "further"), newAuthority(t, "proxies")
	dir := t.TempDir()
	clientCA, proxyCA := filepath.Join(dir, "clients.pem"), filepath.Join(dir, "proxies.pem")
	writePEM(t, clientCA, "CERTIFICATE", further.cert.Raw)
	writePEM(t, proxyCA, "CERTIFICATE", proxies.cert.Raw)
	g := newRig(t, gapless.Authentication{ClientCAFile: clientCA, Anonymous: true, FrontProxy: gapless.FrontProxy{
		ClientCAFile: proxyCA, AllowedNames: []string{"front"}, UsernameHeaders: []string{"X-Remote-User", "X-Name"},
		UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"},
		ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
	}})
	certificate := func(by *authority, name string, change func(*x509.Certificate)) tls.Certificate {
		cert, _ := issue(t, by, func(c *x509.Certificate) {
			c.Subject.CommonName = name
			if change != nil {
				change(c)
			}
		})
		return cert
	}
	named := []string{
		"X-Remote-User", "jane", "X-Remote-Group", "dev", "X-Remote-Group", "ops", "X-Remote-Uid", "7",
		"X-Remote-Extra-Example.org%2fscope", "a",
	}
	jane := "jane 7 [dev ops system:authenticated] map[example.org/scope:[a]]"
	for _, c := range []struct {
		name    string
		certs   []tls.Certificate
		headers []string
		want    string // who it is; "401": nobody
	}{
		{"the proxy", []tls.Certificate{certificate(proxies, "front", nil)}, named, jane},
		{
			"another header",
			[]tls.Certificate{certificate(proxies, "front", nil)},
			[]string{"X-Name", "joe"},
			"joe <nil> [system:authenticated] <nil>",
		},
		{
			"impersonation",
			[]tls.Certificate{certificate(proxies, "front", nil)},
			append([]string{"Impersonate-User", "x"}, "X-Remote-User", "root", "X-Remote-Group", "system:masters"),
			"x <nil> [system:authenticated] <nil>",
		},
		{"the proxy names nobody", []tls.Certificate{certificate(proxies, "front", nil)}, nil, "401"},
		{"another name", []tls.Certificate{certificate(proxies, "other", nil)}, named, "401"},
		{"expired soon", []tls.Certificate{certificate(proxies, "front", func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(time.Hour)
		})}, named, jane},
		{"a client of a CA", []tls.Certificate{certificate(further, "front", func(c *x509.Certificate) {
			c.Subject.Organization = []string{"o"}
		})}, named, "front <nil> [o system:authenticated] credential"},
		{"a token", nil, append(bearer("nonsense"), named...), "401"},
		{"nothing", nil, named, "system:anonymous <nil> [system:unauthenticated] <nil>"},
	} {
		code, who := g.whoami(g.client(c.certs...), c.headers...)
		got := fmt.Sprint(who["username"], " ", who["uid"], " ", who["groups"], " ", who["extra"])
		if c.want == "401" {
			got = fmt.Sprint(code)
		}
		if strings.HasSuffix(c.want, "credential") {
			got = strings.Split(got, "map[")[0] + "credential"
		}
		if c.name == "nothing" { // he may not ask
			got, c.want = fmt.Sprint(code), "403"
		}
		if got != c.want {
			t.Errorf("%s: %d %s, want %s", c.name, code, got, c.want)
		}
	}
}

// TestWithoutAFrontProxyItsHeadersAreRefused is as before there were any.
func TestWithoutAFrontProxyItsHeadersAreRefused(t *testing.T) {
	g := newRig(t, gapless.Authentication{})
	if code, answer := g.do(g.client(g.own), "GET", "/api", "", "X-Remote-User", "jane"); code != http.StatusForbidden {
		t.Errorf("%d %v", code, answer)
	}
}

// TestServersBehindLearnWhomToTrust reads the ConfigMap, and what becomes of it when others write it or a file changes.
// With BootstrapServer it is there if CAs were given.
func TestServersBehindLearnWhomToTrust(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
	proxies, another := newAuthority(t, "proxies"), newAuthority(t, "another")
	file := filepath.Join(t.TempDir(), "proxies.pem")
	writePEM(t, file, "CERTIFICATE", proxies.cert.Raw)
	inPEM := func(ca *authority) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
	}
	for name, c := range map[string]struct {
		bootstrap gapless.Bootstrap
		clients   string
		proxy     gapless.FrontProxy
		want      map[string]string
	}{
		"without a proxy":     {bootstrap: gapless.BootstrapCluster},
		"with CAs of clients": {bootstrap: gapless.BootstrapServer, clients: file},
		"with a proxy": {
			gapless.BootstrapServer, "",
			gapless.FrontProxy{ClientCAFile: file, AllowedNames: []string{"front"}, UsernameHeaders: []string{"X-Remote-User"}},
			map[string]string{
				"requestheader-client-ca-file": inPEM(proxies), "requestheader-allowed-names": `["front"]`,
				"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `[]`,
				"requestheader-extra-headers-prefix": `[]`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRigOf(t, gapless.Config{
				Bootstrap:      c.bootstrap,
				Authentication: gapless.Authentication{ClientCAFile: c.clients, FrontProxy: c.proxy},
			})
			own := inPEM(g.authority())
			if c.clients != "" {
				own += inPEM(proxies)
			}
			want := map[string]any{"client-ca-file": own}
			for key, value := range c.want {
				want[key] = value
			}
			if got := at(g.admin("GET", path, ""), "data"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the data is %v, want %v", got, want)
			}
			// What another server has written stays, and what is missing comes back.
			body, err := json.Marshal(map[string]any{"data": map[string]string{"client-ca-file": inPEM(another)}})
			if err != nil {
				t.Fatalf("encode as JSON: %v", err)
			}
			g.admin("DELETE", path, "")
			want["client-ca-file"] = own
			for code := 0; code != http.StatusOK; code, _ = g.do(g.client(g.own), "GET", path, "") {
				if t.Context().Err() != nil {
					t.Fatal("the ConfigMap is not back")
				}
			}
			g.admin("PATCH", path, string(body), "Content-Type", "application/merge-patch+json")
			want["client-ca-file"] = inPEM(another) + own
			var got any
			for fmt.Sprint(got) != fmt.Sprint(want) {
				if t.Context().Err() != nil {
					t.Fatalf("the data is %v, want %v", got, want)
				}
				got = at(g.admin("GET", path, ""), "data")
			}
		})
	}
}

// TestBootstrapTokensCountAsTheirSecretSays changes each part of it.
func TestBootstrapTokensCountAsTheirSecretSays(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/secrets"
	g := newRig(t, gapless.Authentication{BootstrapTokens: true})
	create := func(kind string, data map[string]string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]string{"name": "bootstrap-token-abcdef"}, "type": kind, "stringData": data,
		})
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		g.do(g.client(g.own), "DELETE", path+"/bootstrap-token-abcdef", "")
		g.admin("POST", path, string(body))
	}
	const token, other = "abcdef.0123456789abcdef", "abcdef.0123456789abcdeg"
	data := func(change ...string) map[string]string {
		all := map[string]string{
			"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a",
			"expiration":        time.Now().Add(time.Hour).Format(time.RFC3339),
		}
		for i := 0; i < len(change); i += 2 {
			all[change[i]] = change[i+1]
		}
		return all
	}
	if code, _ := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
		t.Errorf("without the Secret: %d", code)
	}
	const kind = "bootstrap.kubernetes.io/token"
	create(kind, data())
	code, who := g.whoami(g.client(), bearer(token)...)
	if got := fmt.Sprint(who["username"], who["groups"]); code != http.StatusCreated || got != "system:bootstrap:abcdef"+
		"[system:bootstrappers system:bootstrappers:a system:bootstrappers:b system:authenticated]" {
		t.Errorf("%d %s", code, got)
	}
	if code, _ := g.whoami(g.client(), bearer(other)...); code != http.StatusUnauthorized {
		t.Errorf("with another secret: %d", code)
	}
	for name, c := range map[string]struct {
		kind string
		data map[string]string
	}{
		"another type":     {"Opaque", data()},
		"another ID":       {kind, data("token-id", "bcdefg")},
		"another use":      {kind, data("usage-bootstrap-authentication", "false")},
		"expired":          {kind, data("expiration", time.Now().Add(-time.Second).Format(time.RFC3339))},
		"no time":          {kind, data("expiration", "soon")},
		"a group of power": {kind, data("auth-extra-groups", "system:masters")},
	} {
		create(c.kind, c.data)
		if code, who := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, code, who)
		}
	}
	create(kind, data())
	g.until(token, "system:bootstrap:abcdef")
	g.admin("DELETE", path+"/bootstrap-token-abcdef", "")
	if code, _ := g.whoami(g.client(), bearer(token)...); code != http.StatusUnauthorized {
		t.Errorf("after the deletion of the Secret: %d", code)
	}
	off := newRig(t, gapless.Authentication{})
	off.admin("POST", path, `{"metadata":{"name":"bootstrap-token-abcdef"},"type":"`+kind+`","stringData":{"token-id":"abcdef",`+
		`"token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true"}}`)
	if code, _ := off.whoami(off.client(), bearer(token)...); code != http.StatusUnauthorized {
		t.Errorf("without the flag: %d", code)
	}
}

// TestExpirationsOfTokensAreBoundedAndExtended requests what a kubelet does, and what others do.
func TestExpirationsOfTokensAreBoundedAndExtended(t *testing.T) {
	for name, c := range map[string]struct {
		a                        gapless.Authentication
		pod, own, other, unbound int64 // seconds that tokens are valid
	}{
		"by default": {gapless.Authentication{}, 365 * 24 * 3600, 7200, 3607, 3607},
		"fixed":      {gapless.Authentication{FixedTokenExpiration: true}, 3607, 7200, 3607, 3607},
		"bounded":    {gapless.Authentication{ServiceAccountMaxTokenExpiration: time.Hour}, 3600, 3600, 3600, 3600},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, c.a)
			g.account()
			g.admin("POST", "/api/v1/namespaces/default/pods",
				`{"metadata":{"name":"p"},"spec":{"serviceAccountName":"default","containers":[{"name":"c","image":"c"}]}}`)
			const bound = `"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}`
			for spec, want := range map[string]int64{
				`{` + bound + `,"expirationSeconds":3607}`:                       c.pod,
				`{` + bound + `,"expirationSeconds":7200}`:                       c.own,
				`{` + bound + `,"expirationSeconds":3607,"audiences":["vault"]}`: c.other,
				`{"expirationSeconds":3607}`:                                     c.unbound,
			} {
				payload, err := base64.RawURLEncoding.DecodeString(strings.Split(g.token(spec), ".")[1])
				if err != nil {
					t.Fatalf("decode: %v", err)
				}
				var claims struct {
					Exp, Iat   int64
					Kubernetes struct{ WarnAfter int64 } `json:"kubernetes.io"`
				}
				if err := json.Unmarshal(payload, &claims); err != nil {
					t.Fatalf("decode: %v", err)
				}
				if got := claims.Exp - claims.Iat; got != want ||
					(claims.Kubernetes.WarnAfter == claims.Iat+3607) != (want > 7200) {
					t.Errorf("%s: valid for %d s, want %d; %s", spec, got, want, payload)
				}
			}
		})
	}
}
