package pass_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/pass"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// caller is one who sends requests to upstream itself and through the relay.
type caller struct {
	direct, relayed *http.Client
	headers         []string
}

// tricks are headers by which a caller could become somebody else, or more, in pairs.
func tricks() map[string][]string {
	root := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("token-root"))
	socket := []string{"Upgrade", "websocket", "Sec-Websocket-Protocol", "v4.channel.k8s.io, " + root}
	return map[string][]string{
		"nothing":                             nil,
		"a front proxy's user":                {"X-Remote-User", "root", "X-Remote-Group", "system:masters"},
		"a front proxy's user, in lower case": {"x-remote-user", "root", "x-remote-group", "system:masters"},
		"a front proxy's extra":               {"X-Remote-Extra-Scopes", "all"},
		"impersonation":                       {"Impersonate-User", "root", "Impersonate-Group", "system:masters"},
		"impersonation, in lower case":        {"impersonate-user", "root", "impersonate-group", "system:masters"},
		"impersonation of a group alone":      {"Impersonate-Group", "system:masters"},
		"impersonation of an extra alone":     {"Impersonate-Extra-Scopes", "all"},
		"impersonation of a UID alone":        {"Impersonate-Uid", "1"},
		"an unknown impersonation":            {"Impersonate-Name", "root"},
		"underscores":                         {"Impersonate_User", "root", "X_Remote_User", "root"},
		"a second token":                      {"Authorization", "Bearer token-root"},
		"a password":                          {"Authorization", "Basic cm9vdDpyb290"},
		"a token in a WebSocket":              append(socket, "Connection", "Upgrade"),
		"a token among subprotocols":          {"Sec-Websocket-Protocol", "v4.channel.k8s.io, " + root},
		"a connection header for the token":   {"Connection", "Authorization"},
		"a connection header for a user":      {"Connection", "close, impersonate-user", "Impersonate-User", "joe"},
		"the same with an upgrade": append(socket, "Connection", "Upgrade, Impersonate-User", "Impersonate-User",
			"joe"),
		"another protocol": {
			"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAAP__",
		},
		"a proxy's headers": {
			"X-Forwarded-User", "root", "Forwarded", "by=root", "X-Forwarded-For", "127.0.0.1",
		},
	}
}

// TestNobodyIsMoreThroughTheRelay sends each request to upstream itself too. Through the relay it is
// refused, or made by the same user with the same answer.
func TestNobodyIsMoreThroughTheRelay(t *testing.T) {
	u := relaytest.New(t)
	u.ServiceAccountToken(t) // creates it
	a, err := access.New(access.Config{Upstream: u.Relay(t)})
	if err != nil {
		t.Fatalf("make a access: %v", err)
	}
	t.Cleanup(a.CloseIdle)
	h, err := pass.New(pass.Config{Upstream: u.Relay(t), Certificate: a.Certificate})
	if err != nil {
		t.Fatalf("make a pass: %v", err)
	}
	t.Cleanup(h.CloseIdle)
	front := relaytest.Serve(t, h, u.ClientCA(t), nil)
	callers := map[string]caller{}
	add := func(name, proto string, headers []string, certificates ...tls.Certificate) {
		direct := &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: u.ClientCA(t), Certificates: certificates},
		}
		t.Cleanup(direct.CloseIdleConnections)
		callers[name+" over "+proto] = caller{&http.Client{Transport: direct}, front.Client(t, proto, certificates...), headers}
	}
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		add("nobody", proto, nil)
		for _, token := range []string{"token-jane", "token-joe", "token-root", "guess"} {
			add(token, proto, []string{"Authorization", "Bearer " + token})
		}
		add("jane's certificate", proto, nil, u.Certificate(t, "jane"))
		add("jane's certificate and root's token",
			proto, []string{"Authorization", "Bearer token-root"}, u.Certificate(t, "jane"))
		add("an editor's certificate", proto, nil, u.Certificate(t, "joe", "lister", "ä b"))
		add("a service account's certificate", proto, nil, u.Certificate(t, "system:serviceaccount:shop:robot"))
		add("the relay's certificate", proto, nil, u.Certificate(t, "relay"))
		add("a group with a space", proto, nil, u.Certificate(t, "joe", "system:masters "))
		add("a user with a space", proto, nil, u.Certificate(t, " jane"))
	}
	passed := 0
	for name, c := range callers {
		for trick, headers := range tricks() {
			if strings.HasSuffix(name, "HTTP/2") && slices.Contains(headers, "Connection") {
				continue // it has no such header
			}
			headers = append(slices.Clone(c.headers), headers...)
			for _, q := range [][2]string{
				{"GET", "/api/v1/namespaces/shop/configmaps"},
				{"PUT", "/api/v1/namespaces/shop/configmaps/a"},
				{"DELETE", "/api/v1/nodes/none"},
				{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"},
			} {
				body := map[string]string{"PUT": `{"metadata":{"name":"a"}}`, "POST": "{}"}[q[0]]
				want := get(t, c.direct, q[0]+" "+u.URL()+q[1], body, headers...)
				got := get(t, c.relayed, q[0]+" "+front.URL+q[1], body, headers...)
				switch code := got.code; {
				case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusBadRequest:
					if trick == "nothing" && code != want.code && !strings.Contains(name, "space") {
						t.Errorf("%s: %s is refused: %d %s, upstream: %d", name, q, code, got.body, want.code)
					}
				case code != want.code:
					t.Errorf("%s, %s: %s is %d %s, upstream: %d %s", name, trick, q, code, got.body, want.code, want.body)
				case q[0] == "POST":
					passed++
					if diff := cmp.Diff(whoIs(t, want.body), whoIs(t, got.body)); diff != "" {
						t.Errorf("%s, %s: is another user\n%s", name, trick, diff)
					}
				}
			}
		}
	}
	if passed < 100 {
		t.Errorf("only %d requests passed", passed)
	}
}

func whoIs(t *testing.T, review string) authenticationv1.UserInfo {
	t.Helper()
	var r authenticationv1.SelfSubjectReview
	if err := json.Unmarshal([]byte(review), &r); err != nil {
		t.Fatalf("%s: %v", review, err)
	}
	return r.Status.UserInfo
}

func TestACertificateWithImpersonationIsRefusedWithTheReason(t *testing.T) {
	_, cfg := foreign(t, tell)
	cfg.BearerToken = "the-relay"
	_, front := inFront(t, pass.Config{Upstream: cfg, Certificate: func(*http.Request) (user.Info, error) { return jane(), nil }})
	resp := get(t, front.Client(t, "HTTP/2"), "GET "+front.URL+"/api", "", "Impersonate-User", "joe")
	if resp.code != http.StatusForbidden || !strings.Contains(resp.body, "use a bearer token") ||
		!strings.Contains(resp.body, "jane") {
		t.Errorf("%d %s", resp.code, resp.body)
	}
}

func jane() user.Info {
	return &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
}

// users are callers as certificates name them, and whether they can be named in headers.
func users() map[string]struct {
	who user.DefaultInfo
	can bool
} {
	all := []string{user.AllAuthenticated}
	return map[string]struct {
		who user.DefaultInfo
		can bool
	}{
		"a name": {user.DefaultInfo{Name: "jane", Groups: all}, true},
		"everything": {
			user.DefaultInfo{
				Name: "jané ü", UID: "u-1", Groups: []string{"b", "a, c", "ä", user.AllAuthenticated},
				Extra: map[string][]string{"example.org/scopes": {"x", "", "y, z"}, "k%2f ä:": {"%"}},
			}, true,
		},
		"a credential": {
			user.DefaultInfo{
				Name: "jane", Groups: all,
				Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"X509SHA256=00ff"}},
			}, true,
		},

		"a space behind the name": {user.DefaultInfo{Name: "jane ", Groups: all}, false},
		"a tab before the group":  {user.DefaultInfo{Name: "jane", Groups: []string{"\tsystem:masters"}}, false},
		"a line in the name":      {user.DefaultInfo{Name: "jane\r\nImpersonate-Group: system:masters", Groups: all}, false},
		"a line in the UID":       {user.DefaultInfo{Name: "jane", UID: "1\n", Groups: all}, false},
		"an empty group":          {user.DefaultInfo{Name: "jane", Groups: []string{""}}, false},
		"no group":                {user.DefaultInfo{Name: "system:serviceaccount:a:b"}, false},
		"an extra key in upper case": {
			user.DefaultInfo{Name: "jane", Groups: all, Extra: map[string][]string{"Key": {"v"}}}, false,
		},
		"an empty extra key": {
			user.DefaultInfo{Name: "jane", Groups: all, Extra: map[string][]string{"": {"v"}}}, false,
		},
		"a space in an extra's value": {
			user.DefaultInfo{Name: "jane", Groups: all, Extra: map[string][]string{"k": {"v "}}}, false,
		},
	}
}

// TestUpstreamReadsTheUserThatACertificateNames decodes the headers as upstream does.
func TestUpstreamReadsTheUserThatACertificateNames(t *testing.T) {
	var read user.Info
	impersonated := func(r *http.Request) (user.Info, error) {
		if got := r.Header.Get("Authorization"); got != "Bearer the-relay" {
			t.Errorf("the request comes from %q", got)
		}
		runs, err := authn.NewImpersonation(auth.AlwaysAllow{}).User(r.Context(), r.Header, &user.DefaultInfo{Name: "relay"},
			auth.Attributes{Verb: "get", Path: r.URL.Path})
		return runs.As, err
	}
	headers, err := headerrequest.New([]string{"X-Remote-User"}, []string{"X-Remote-Uid"}, []string{"X-Remote-Group"},
		[]string{"X-Remote-Extra-"})
	if err != nil {
		t.Fatalf("make a headerrequest: %v", err)
	}
	proxied := func(r *http.Request) (user.Info, error) {
		if len(r.TLS.PeerCertificates) != 1 || r.TLS.PeerCertificates[0].Subject.CommonName != "front-proxy" ||
			r.Header.Get("Authorization") != "" {
			t.Errorf("the request comes from %v, %q", r.TLS.PeerCertificates, r.Header.Get("Authorization"))
		}
		response, known, err := headers.AuthenticateRequest(r)
		if !known {
			return nil, fmt.Errorf("nobody is known: %w", err)
		}
		return response.User, nil
	}
	for mode, reader := range map[string]func(*http.Request) (user.Info, error){
		"impersonation": impersonated, "front proxy": proxied,
	} {
		front := relaytest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var err error
			if read, err = reader(r); err != nil {
				t.Errorf("reader: %v", err)
			}
		}), nil, func(c *tls.Config) *tls.Config { c.ClientAuth = tls.RequestClientCert; return c })
		cfg := pass.Config{
			Upstream: &rest.Config{
				Host: front.URL, TLSClientConfig: rest.TLSClientConfig{CAData: front.CA()}, BearerToken: "the-relay",
			},
		}
		if mode == "front proxy" {
			cfg.FrontProxy = frontProxy(t)
		}
		for name, c := range users() {
			cfg.Certificate = func(*http.Request) (user.Info, error) { return &c.who, nil }
			_, relay := inFront(t, cfg)
			read = nil
			resp := get(t, relay.Client(t, "HTTP/2"), "GET "+relay.URL+"/api", "", "Authorization", "Bearer token-root")
			if !c.can {
				if resp.code != http.StatusForbidden || read != nil {
					t.Errorf("%s: %s is %d %s, upstream reads %v", mode, name, resp.code, resp.body, read)
				}
				continue
			}
			if diff := cmp.Diff(user.Info(&c.who), read, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s\n%s", mode, name, diff)
			}
		}
	}
}

// frontProxy makes a certificate of a front proxy.
func frontProxy(t *testing.T) *pass.FrontProxy {
	t.Helper()
	credentials, err := auth.Open(t.TempDir(), auth.Options{})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	cert, key, err := credentials.Issue("front-proxy")
	if err != nil {
		t.Fatalf("issue credentials: %v", err)
	}
	dir := t.TempDir()
	f := &pass.FrontProxy{CertFile: filepath.Join(dir, "a.crt"), KeyFile: filepath.Join(dir, "a.key")}
	for path, body := range map[string][]byte{f.CertFile: cert, f.KeyFile: key} {
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	return f
}

// TestACertificateDoesNotGetAConnectionForFurtherRequests has an upstream that would switch to whatever a
// client offers.
func TestACertificateDoesNotGetAConnectionForFurtherRequests(t *testing.T) {
	var asked http.Header
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	_, front := inFront(t, pass.Config{Upstream: cfg, Certificate: func(*http.Request) (user.Info, error) { return jane(), nil }})
	for _, c := range []struct {
		offered []string
		want    string
	}{
		{[]string{"h2c"}, ""},
		{[]string{"H2C"}, ""},
		{[]string{"websocket, h2c"}, ""},
		{[]string{"h2c,websocket"}, ""},
		{[]string{"HTTP/2.0"}, ""},
		{[]string{"TLS/1.0, HTTP/1.1"}, ""},
		{[]string{"websocket", "h2c"}, "websocket"}, // a proxy passes the first one on
		{[]string{"h2c", "websocket"}, ""},
		{[]string{"WebSocket"}, "WebSocket"},
		{[]string{"SPDY/3.1"}, "SPDY/3.1"},
	} {
		headers := []string{"Connection", "Upgrade, HTTP2-Settings", "HTTP2-Settings", "AAMAAABkAAQAAP__"}
		for _, protocol := range c.offered {
			headers = append(headers, "Upgrade", protocol)
		}
		resp := get(t, front.Client(t, "HTTP/1.1"), "GET "+front.URL+"/api", "", headers...)
		if resp.code != http.StatusNoContent || asked.Get("Upgrade") != c.want || len(asked["Upgrade"]) > 1 ||
			(asked.Get("Connection") == "") != (c.want == "") {
			t.Errorf("%q is passed on as %q, %q, and answered %d %s",
				c.offered, asked["Connection"], asked["Upgrade"], resp.code, resp.body)
		}
	}
}

// TestOnlyCertificatesUseTheRelaysCredentials: neither nobody nor a token gets them.
func TestOnlyCertificatesUseTheRelaysCredentials(t *testing.T) {
	front := relaytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.TLS.PeerCertificates), r.Header["Authorization"], r.Header["Impersonate-User"])
	}), nil, func(c *tls.Config) *tls.Config { c.ClientAuth = tls.RequestClientCert; return c })
	u := relaytest.New(t)
	own := u.User(t, "relay")
	own.Host, own.CAData = front.URL, front.CA()
	_, relay := inFront(t, pass.Config{Upstream: own, Certificate: func(r *http.Request) (user.Info, error) {
		if r.Header.Get("X-As-Jane") != "" {
			return jane(), nil
		}
		return nil, nil //nolint:nilnil // nobody
	}})
	for want, headers := range map[string][]string{
		"0 [] []":                 nil,
		"0 [Bearer x] [root]":     {"Authorization", "Bearer x", "Impersonate-User", "root"},
		"1 [] [jane]":             {"X-As-Jane", "1"},
		"0 [] [root]":             {"Impersonate-User", "root"},
		"0 [Basic eA==] []":       {"Authorization", "Basic eA=="},
		"1 [] [jane] with Bearer": {"X-As-Jane", "1", "Authorization", "Bearer x"},
	} {
		if got := get(t, relay.Client(t, "HTTP/2"), "GET "+relay.URL+"/api", "",
			headers...); got.body != strings.TrimSuffix(want, " with Bearer") {
			t.Errorf("%v: %s, want %s", headers, got.body, want)
		}
	}
}
