package dashboard_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// tokens is a file with the tokens of jane, who may do nothing, and root.
func tokens(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte("token-jane,jane,1\ntoken-root,root,2,system:masters\n"), 0o600); err != nil {
		t.Fatalf("write tokens: %v", err)
	}
	return file
}

// TestOfThePastSomebodySeesWhatTheAPIShows asks as several callers.
func TestOfThePastSomebodySeesWhatTheAPIShows(t *testing.T) {
	s, _ := runServer(t, func(c *gapless.Config) {
		c.DashboardListen, c.Authentication.TokenAuthFile = "https://127.0.0.1:0", tokens(t)
		c.Authentication.Anonymous = true // of the API: a page wants credentials all the same
	})
	a := apiOf(t, s.RESTConfig())
	fill(a)
	widgets(a)
	cfg := rest.AnonymousClientConfig(s.RESTConfig())
	anonymous, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(anonymous.CloseIdleConnections)
	anonymous.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	as := func(token string) page {
		p := page{t, anonymous, s.DashboardURL(), http.Header{}}
		if token != "" {
			p.header.Set("Authorization", "Bearer "+token)
		}
		return p
	}
	const object = "r=configmaps.v1&ns=shop&name=web"
	all := []string{
		"/", "/?all=1", "/timeline", "/timeline?ns=shop", "/between?a=1&b=9000000000", "/watches", "/object?" + object,
		"/object.yaml?" + object, "/object?r=secrets.v1&ns=shop&name=db&reveal=1", "/live", "/object?at=0s&" + object,
		"/object?a=1000000000&b=0s&" + object, "/blame?" + object, "/blame?at=0s&" + object,
		"/blame?r=secrets.v1&ns=shop&name=db&reveal=1", "/between?a=1h", "/between?a=1h&ns=shop&status=1",
	}
	secret := regexp.MustCompile(`shop/|web|\bdb\b|` + secretValue + "|" + encoded)
	for _, path := range all {
		for _, token := range []string{"", "forged"} {
			if code, body := as(token).get(path); code != http.StatusUnauthorized || secret.MatchString(main(body)) {
				t.Errorf("%s for nobody, with token %q: %d %s", path, token, code, main(body))
			}
		}
		want := http.StatusOK
		if strings.HasPrefix(path, "/object") || strings.HasPrefix(path, "/blame") || path == "/watches" {
			want = http.StatusForbidden
		}
		if path == "/live" { // says nothing about objects, and does not end
			continue
		}
		code, body := as("token-jane").get(path)
		body = strings.ReplaceAll(main(body), "configmaps &#34;web&#34;", "") // she knows what she asked for
		body = strings.ReplaceAll(body, "secrets &#34;db&#34;", "")
		body = regexp.MustCompile(`<form class="filters"(?s:.*?)</form>`).ReplaceAllString(body, "") // kinds
		body = strings.ReplaceAll(body, "webhook", "")
		if code != want || secret.MatchString(body) {
			t.Errorf("%s for jane, who may read nothing: %d, want %d: %s", path, code, want, body)
		}
	}
	root := as("token-root")
	root.shows("/", "configmaps")
	root.shows("/object?"+object, "color: red")
	for path, shown := range map[string]bool{
		"/object?r=secrets.v1&ns=shop&name=db": false, "/object?r=secrets.v1&ns=shop&name=db&reveal=1": true,
		"/object.yaml?r=secrets.v1&ns=shop&name=db": false, "/object.yaml?r=secrets.v1&ns=shop&name=db&reveal=1": true,
		"/blame?r=secrets.v1&ns=shop&name=db": false, "/blame?r=secrets.v1&ns=shop&name=db&reveal=1": true,
		"/timeline?kind=secrets.v1&reveal=1": false, "/between?a=1000000000&b=9000000000&kind=secrets.v1&reveal=1": false,
	} {
		if body := root.shows(path); strings.Contains(body, encoded) != shown {
			t.Errorf("%s shows the data of a Secret: %v", path, !shown)
		}
	}
	a.send("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles",
		`{"metadata":{"name":"maps"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"]}]}`)
	a.send("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", `{"metadata":{"name":"maps"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"maps"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	eventually(t, "jane may list ConfigMaps", func() bool {
		_, body := as("token-jane").get("/timeline?ns=shop")
		return strings.Contains(body, "ConfigMap shop/web") && !strings.Contains(body, "Pod shop/one")
	})
	if body := as("token-jane").shows("/between?ns=shop&a=1h", "ConfigMap shop/web"); strings.Contains(body, "Pod shop/one") ||
		strings.Contains(body, "Secret shop/db") {
		t.Errorf("jane may list ConfigMaps only, and sees what differs of others: %s", main(body))
	}
	if body := as("token-jane").shows("/between?a=1h"); strings.Contains(body, "shop/web") {
		t.Errorf("jane may list ConfigMaps in shop only, and sees what differs in all namespaces: %s", main(body))
	}
	if _, body := as("token-jane").get("/timeline"); strings.Contains(body, "shop/web") {
		t.Errorf("jane may list ConfigMaps in shop only, and sees those of all namespaces: %s", main(body))
	}
	for _, path := range []string{
		"/object?" + object, "/blame?" + object, "/object?r=secrets.v1&ns=shop&name=db&reveal=1",
	} {
		proxy := as("token-root")
		proxy.header.Set("Impersonate-User", "jane")
		if code, body := proxy.get(path); code != http.StatusForbidden {
			t.Errorf("%s for a proxy that asks for jane: %d %s", path, code, main(body))
		}
	}
	certified := page{t, a.client, s.DashboardURL(), http.Header{}}
	certified.shows("/object?"+object, "color: red")

	code, cookies := logIn(t, anonymous, s.DashboardURL(), "token-root", "")
	if code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("log in: %d, %v", code, cookies)
	}
	if c := cookies[0]; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", c)
	}
	session := as("")
	session.header.Set("Cookie", cookies[0].Name+"="+cookies[0].Value)
	session.shows("/object?"+object, "color: red")
	for token, origin := range map[string]string{"forged": "", "token-root": "https://attacker.example"} {
		if code, cookies := logIn(t, anonymous, s.DashboardURL(), token, origin); code/100 != 4 || len(cookies) > 0 {
			t.Errorf("logged in with %s from %q: %d", token, origin, code)
		}
	}
}

// logIn sends the form with a token.
func logIn(t *testing.T, c *http.Client, at, token, origin string) (code int, cookies []*http.Cookie) {
	t.Helper()
	form := strings.NewReader(url.Values{"token": {token}}.Encode())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/login", form)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	got, err := c.Do(r)
	if err != nil {
		t.Fatalf("log in: %v", err)
	}
	_ = got.Body.Close()
	return got.StatusCode, got.Cookies()
}
