package dashboard_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// runRelay runs a relay of ConfigMaps and Secrets until the test ends.
func runRelay(t *testing.T, u *relaytest.Upstream, change func(*gapless.RelayConfig)) *gapless.Relay {
	t.Helper()
	cfg := gapless.RelayConfig{
		Upstream: u.Relay(t), Memory: true, Listen: "127.0.0.1:0", DashboardListen: "127.0.0.1:0",
		Resources: []string{"configmaps", "secrets"},
	}
	cfg.Upstream.CAData = u.RESTConfig().CAData
	cfg.Access.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(cfg.Access.ClientCAFile, cfg.Upstream.CAData, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	change(&cfg)
	r, err := gapless.NewRelay(cfg)
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	until(t, r.Run, r.Ready())
	return r
}

const relayMaps = "/api/v1/namespaces/shop/configmaps"

// mayMirror lets the relay read what it mirrors.
func mayMirror(a api) {
	a.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"mirror"},
"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["list","watch"]}]}`)
	a.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"mirror"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"mirror"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"relay"}]}`)
}

// TestARelayShowsWhatItMirrors also while upstream is away.
func TestARelayShowsWhatItMirrors(t *testing.T) {
	u := relaytest.New(t)
	a := apiOf(t, u.RESTConfig())
	mayMirror(a)
	a.send("POST", "/api/v1/namespaces/shop/secrets", `{"metadata":{"name":"db"},"data":{"key":"`+encoded+`"}}`)
	a.send("POST", relayMaps, `{"metadata":{"name":"b"},"data":{"one":"1"}}`)
	r := runRelay(t, u, func(c *gapless.RelayConfig) { c.MirrorSecrets = true })
	p := pageAt(t, r.DashboardURL())
	eventually(t, "both are mirrored", func() bool {
		_, body := p.get("/")
		return strings.Contains(body, ">configmaps</a>") && strings.Contains(body, ">secrets</a>")
	})
	a.send("PATCH", relayMaps+"/a", `{"data":{"color":"green"}}`)
	a.send("PATCH", relayMaps+"/b", `{"data":{"two":"2"}}`)
	a.send("PATCH", "/api/v1/namespaces/shop/secrets/db", `{"data":{"more":"`+encoded+`"}}`)
	eventually(t, "changes come", func() bool {
		_, body := p.get("/timeline?ns=shop")
		return strings.Count(body, ">ConfigMap shop/a<") == 2 && strings.Count(body, ">Secret shop/db<") == 2
	})
	rv := regexp.MustCompile(`<input type="radio" name="b" value="(\d+)"`).
		FindAllStringSubmatch(p.shows("/timeline?kind=configmaps.v1&ns=shop"), -1)
	if len(rv) < 2 {
		t.Fatalf("there are %d changes", len(rv))
	}
	look := func() {
		t.Helper()
		p.shows("/object?r=configmaps.v1&ns=shop&name=a", "color: green")
		p.shows("/object?r=secrets.v1&ns=shop&name=db", "key: (13 bytes, hash ")
		p.shows("/timeline?ns=shop", "ConfigMap shop/a")
		p.shows("/object?r=configmaps.v1&ns=shop&name=a&at=0s", "color: green")
		p.shows("/blame?r=configmaps.v1&ns=shop&name=b", "before history tester (Update)", "Z</a> tester (Update)</td><td>  two:")
		p.shows("/blame?r=secrets.v1&ns=shop&name=db", "key: (13 bytes, hash ")
		p.shows("/between?a=1h", "its history begins at", "ConfigMap shop/a", "<strong>0</strong> added", // they were there
			"<strong>3</strong> changed")
		p.shows("/between?a=1000000000&b=9000000000", "its history begins at", "ConfigMap shop/a")
		p.shows("/object?r=configmaps.v1&ns=shop&name=a&a="+rv[len(rv)-1][1]+"&b="+rv[0][1], "color: green")
		p.crawl(func(path, body string) {
			if strings.Contains(body, encoded) || strings.Contains(body, secretValue) {
				t.Errorf("%s shows the data of a Secret", path)
			}
			if strings.Contains(body, `class="bad"`) {
				t.Errorf("%s says that something is wrong: %s", path, main(body))
			}
		})
	}
	look()
	p.shows("/relay", ">configmaps.v1</a>", "which answers")
	if code, _ := p.get("/replicas"); code != http.StatusNotFound {
		t.Errorf("the page of replicas: %d", code)
	}
	reader := apiOf(t, &rest.Config{
		Host: r.URL(), BearerToken: "token-jane", TLSClientConfig: rest.TLSClientConfig{CAData: r.CA()},
	})
	lists := regexp.MustCompile(`<strong>([1-9]\d*)</strong> lists, <strong>\d+</strong> resumed watches saved`)
	sent := regexp.MustCompile(`<strong>[1-9][\d.]* k?B</strong> sent for upstream`)
	eventually(t, "a list that upstream did not serve is counted", func() bool {
		reader.send("GET", relayMaps, "")
		_, body := p.get("/relay")
		return lists.MatchString(body) && sent.MatchString(body)
	})
	u.Cut()
	look()
	p.shows("/relay", ">configmaps.v1</a>", "Last contact")
	u.Mend()
	for i := range 520 { // more than are read at once: lists are compared, from that with which the relay began
		a.send("PATCH", relayMaps+"/b", fmt.Sprintf(`{"data":{"two":"%d"}}`, i))
	}
	eventually(t, "the relay has seen the last one", func() bool {
		_, body := p.get("/object?r=configmaps.v1&ns=shop&name=b")
		return strings.Contains(body, "two: &#34;519&#34;")
	})
	p.shows("/between?a=1h&kind=configmaps.v1", "its history begins at", "<td>  two: &#34;519&#34;</td>",
		"<strong>0</strong> added", "<strong>2</strong> changed")
	if code, body := p.get("/object?r=pods.v1&ns=shop&name=a"); code != http.StatusNotFound {
		t.Errorf("what is not mirrored: %d %s", code, main(body))
	}
}

// TestOfARelaySomebodySeesWhatUpstreamAllows asks as users of upstream.
func TestOfARelaySomebodySeesWhatUpstreamAllows(t *testing.T) {
	u := relaytest.New(t)
	a := apiOf(t, u.RESTConfig())
	mayMirror(a)
	r := runRelay(t, u, func(c *gapless.RelayConfig) { c.DashboardListen = "https://127.0.0.1:0" })
	client, err := rest.HTTPClientFor(&rest.Config{Host: r.DashboardURL(), TLSClientConfig: rest.TLSClientConfig{CAData: r.CA()}})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	as := func(token string) page {
		return page{t, client, r.DashboardURL(), http.Header{"Authorization": {"Bearer " + token}}}
	}
	a.send("PATCH", relayMaps+"/a", `{"data":{"color":"green"}}`)
	eventually(t, "it is mirrored", func() bool {
		_, body := as("token-root").get("/timeline?ns=shop")
		return strings.Contains(body, "ConfigMap shop/a")
	})
	as("token-jane").shows("/timeline?ns=shop", "ConfigMap shop/a")
	for _, path := range []string{
		"/", "/timeline", "/timeline?ns=shop", "/between?a=1&b=9000000000", "/between?a=1h", "/between?a=1h&ns=shop",
	} {
		if body := as("token-joe").shows(path); strings.Contains(body, "shop/a") {
			t.Errorf("%s shows joe what he may not read: %s", path, main(body))
		}
	}
	for path, want := range map[string]int{
		"/object?r=configmaps.v1&ns=shop&name=a": 403, "/object?r=configmaps.v1&ns=shop&name=a&at=0s": 403,
		"/blame?r=configmaps.v1&ns=shop&name=a": 403, "/watches": 403, "/relay": 403,
	} {
		if code, body := as("token-joe").get(path); code != want {
			t.Errorf("%s for joe: %d %s", path, code, main(body))
		}
	}
	for _, path := range []string{
		"/", "/timeline", "/object?r=configmaps.v1&ns=shop&name=a", "/blame?r=configmaps.v1&ns=shop&name=a", "/between?a=1h",
		"/watches", "/relay", "/live",
	} {
		if code, body := as("forged").get(path); code != http.StatusUnauthorized {
			t.Errorf("%s for nobody: %d %s", path, code, main(body))
		}
	}
}
