package replicas_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

// pages reads a dashboard.
type pages struct {
	t      *testing.T
	client *http.Client
	url    string
	token  string
}

func pagesAt(t *testing.T, url string) pages {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return pages{t, &http.Client{Transport: transport}, url, ""}
}

func (p pages) get(path string) (code int, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		p.t.Fatalf("make a request: %v", err)
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	got, err := p.client.Do(r)
	if err != nil {
		p.t.Fatalf("get %s: %v", path, err)
	}
	text, err := io.ReadAll(got.Body)
	if closing := got.Body.Close(); err != nil || closing != nil {
		p.t.Fatalf("read %s: %v, %v", path, err, closing)
	}
	return got.StatusCode, string(text)
}

// shows checks that a page is there, and has some texts.
func (p pages) shows(path string, texts ...string) {
	p.t.Helper()
	code, body := p.get(path)
	_, body, _ = strings.Cut(body, "<main")
	if code != http.StatusOK {
		p.t.Errorf("%s: %d %.3000s", path, code, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			p.t.Errorf("%s lacks %q: %.3000s", path, text, body)
		}
	}
}

// TestEachReplicaHasADashboard with what was written at the other, also before it was restarted, and while etcd is away.
func TestEachReplicaHasADashboard(t *testing.T) {
	store, stop := startEtcd(t)
	dirs := []string{t.TempDir(), t.TempDir()}
	shown := func(c *gapless.Config) { c.DashboardListen = "127.0.0.1:0" }
	a, b := start(t, store, dirs[0], shown), start(t, store, dirs[1], shown)
	ctx, atA := t.Context(), a.client.CoreV1()
	if _, err := atA.ConfigMaps("default").Create(ctx, configMap("a", "1"), metav1.CreateOptions{
		FieldManager: "one",
	}); err != nil {
		t.Fatalf("create at A: %v", err)
	}
	const value = "correct-horse"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"key": value}}
	if _, err := atA.Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create at A: %v", err)
	}
	p := pagesAt(t, b.DashboardURL())
	harness.Eventually(t, "B has seen it", func() bool {
		_, body := p.get("/timeline?kind=secrets.v1")
		return strings.Contains(body, "Secret default/db")
	})
	const apart = 20 * time.Millisecond // times are of ms
	<-time.After(apart)
	then := url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))
	<-time.After(apart)
	changed, err := atA.ConfigMaps("default").Update(ctx, configMap("a", "2"), metav1.UpdateOptions{FieldManager: "two"})
	if err != nil {
		t.Fatalf("update at A: %v", err)
	}
	if err := atA.Secrets("default").Delete(ctx, "db", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete at A: %v", err)
	}
	const of = "r=configmaps.v1&ns=default&name=a"
	look := func(what string, p pages) {
		t.Helper()
		t.Log(what)
		p.shows("/", "configmaps", "secrets")
		p.shows("/timeline?ns=default", "ConfigMap default/a", "Secret default/db", "by two", "data.k 1→2")
		p.shows("/object?"+of, "<td>  k: &#34;1&#34;</td><td>  k: &#34;2&#34;</td>")
		p.shows("/object?"+of+"&at="+then, "k: &#34;1&#34;")
		p.shows("/blame?"+of, "two (Update)", "one (Update)", "k: &#34;2&#34;")
		p.shows("/between?ns=default&a="+then, "<strong>1</strong> removed", "<strong>1</strong> changed", "Secret default/db",
			"key: (13 bytes, hash ")
		p.shows("/between?ns=default&a="+then+"&b="+changed.ResourceVersion, "<strong>1</strong> changed")
		for _, path := range []string{"/object?r=secrets.v1&ns=default&name=db", "/between?a=" + then, "/timeline"} {
			if _, body := p.get(path); strings.Contains(body, value) {
				t.Errorf("%s shows the data of a Secret", path)
			}
		}
		p.shows("/watches", "No watch has got 410")
	}
	harness.Eventually(t, "B has seen all of it", func() bool {
		_, body := p.get("/timeline?kind=secrets.v1&ns=default")
		return strings.Contains(body, `class="deleted"`)
	})
	look("at B", p)
	look("at A", pagesAt(t, a.DashboardURL()))
	harness.Eventually(t, "the page of replicas has both, and who leads", func() bool {
		_, body := p.get("/replicas")
		return strings.Count(body, a.URL()) == 1 && strings.Contains(body, "this one") &&
			strings.Contains(body, "leader: it runs") &&
			strings.Contains(body, "It has all that etcd has")
	})
	p.shows("/replicas", "a quorum", store, "what was before")
	b.stop(t)
	again := start(t, store, dirs[1], shown)
	p = pagesAt(t, again.DashboardURL())
	look("at B after a restart", p)
	stop()
	for _, path := range []string{"/replicas", "/timeline", "/object?" + of} {
		if code, body := p.get(path); code != http.StatusOK && code != http.StatusServiceUnavailable &&
			code != http.StatusGatewayTimeout {
			t.Errorf("%s without etcd: %d %.2000s", path, code, body)
		}
	}
	harness.Eventually(t, "the page of replicas says that etcd is away", func() bool {
		_, body := p.get("/replicas")
		return strings.Contains(body, "NO QUORUM") && strings.Contains(body, "It is not sure to have what etcd has now")
	})
}

// TestADashboardOfAReplicaIsForItsCallers: each sees what they may read.
func TestADashboardOfAReplicaIsForItsCallers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte("token-jane,jane,1\ntoken-root,root,2,system:masters\n"), 0o600); err != nil {
		t.Fatalf("write tokens: %v", err)
	}
	r := start(t, member(t), t.TempDir(), func(c *gapless.Config) {
		c.DashboardListen, c.Authentication.TokenAuthFile = "https://127.0.0.1:0", file
	})
	if _, err := r.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a", "1"),
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(r.RESTConfig()))
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	for path, code := range map[string]int{
		"/replicas": 403, "/watches": 403, "/timeline": 200, "/between?a=1h": 200,
		"/blame?r=configmaps.v1&ns=default&name=a":  403,
		"/object?r=configmaps.v1&ns=default&name=a": 403, "/object?r=configmaps.v1&ns=default&name=a&at=0s": 403,
	} {
		for token, want := range map[string]int{"forged": 401, "token-jane": code, "token-root": 200} {
			p := pages{t, client, r.DashboardURL(), token}
			got, body := p.get(path)
			_, body, _ = strings.Cut(body, "<main")
			if got != want || token != "token-root" && (strings.Contains(body, "default/a") || strings.Contains(body, r.URL())) {
				t.Errorf("%s with %s: %d, want %d: %.2000s", path, token, got, want, body)
			}
		}
	}
}
