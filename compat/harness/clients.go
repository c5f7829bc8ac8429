package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Client is a client in another language: a Foreign with one watch of the ConfigMaps
// of a namespace, which is also the watch's name.
type Client struct {
	Name      string
	Namespace string
	// Host is the server's host name for this client; "" is 127.0.0.1.
	Host string
	// Command is the program; a kubeconfig and the namespace are added as its arguments.
	Command []string
}

// ClientsUnderFailures runs clients through [UnderFailures], each with objects of more
// than 80 KiB together, so that lists and streaming lists need many chunks. A client may
// list the whole state at most maxLists times: at the beginning, and after the history
// that it needs was compacted.
func ClientsUnderFailures(t *testing.T, maxLists int64, clients ...Client) {
	t.Helper()
	s := Start(t)
	proxy := NewProxy(t, s)
	admin := Administrator(t, s)
	web := admin.Client(t)
	at := place{web: web, url: s.URL, as: admin, proxy: proxy}
	UnderFailures(t, s, proxy, web, at.start(t, maxLists, clients)...)
}

// place is where clients read, and where their objects are written.
type place struct {
	web   *http.Client // writes at url
	url   string
	as    *Identity // the clients, behind proxy
	proxy *Proxy
}

// start creates objects of clients and starts them, until the test ends.
func (at place) start(t *testing.T, maxLists int64, clients []Client) []*Informer {
	t.Helper()
	var informers []*Informer
	for _, c := range clients {
		Create(t, at.web, at.url+"/api/v1/namespaces",
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, c.Namespace))
		path := "/api/v1/namespaces/" + c.Namespace + "/configmaps"
		Fill(t, at.web, at.url+path, 20) // before the client starts
		p, w := c.start(t, at.as, at.proxy)
		informers = append(informers, &Informer{
			Name: c.Name, Path: path, Object: large, Run: func(ctx context.Context) { <-ctx.Done() },
			Store: func() map[string]string { return p.Store(c.Namespace) }, Witness: w.Witness, Counter: w.Counter,
			MaxLists: maxLists,
		})
	}
	return informers
}

// start starts the client, until the test ends.
func (c Client) start(t *testing.T, as *Identity, proxy *Proxy) (*Foreign, *Watching) {
	t.Helper()
	url := proxy.URL()
	if c.Host != "" {
		url = strings.Replace(url, "127.0.0.1", c.Host, 1)
	}
	watches := Watches(map[string]string{c.Namespace: "/api/v1/namespaces/" + c.Namespace + "/configmaps"})
	args := append(c.Command[1:len(c.Command):len(c.Command)], as.WriteKubeconfig(t, url), c.Namespace)
	// It ends with its input, before the test ends.
	return StartForeign(t, exec.CommandContext(context.WithoutCancel(t.Context()), c.Command[0], args...),
		watches), watches[c.Namespace]
}

// Fill creates so many configmaps of 2 KiB in a collection.
func Fill(t testing.TB, web *http.Client, url string, count int) {
	t.Helper()
	for n := range count {
		Create(t, web, url,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old-%d"},"data":{"fill":%q}}`, n, fill(2<<10)))
	}
}

// Create creates an object of JSON in a collection.
func Create(t testing.TB, web *http.Client, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // it was not read
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %s", url, resp.Status)
	}
}

// Get reads a URL, and returns the code and the answer.
func Get(t testing.TB, web *http.Client, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// large is a ConfigMap of 2 KiB that hardly compresses.
func large(name string, n int) map[string]any {
	o := ConfigMap(name, n)
	o["data"] = map[string]any{"n": fmt.Sprint(n), "fill": fill(2 << 10)}
	return o
}

func fill(size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%016x", rand.Uint64())
	}
	return b.String()
}

// Tools checks for the tools of a module. In CI it installs missing ones with the
// module's script, and fails if that fails; elsewhere it skips the test.
func Tools(t testing.TB, tools ...string) {
	t.Helper()
	missing := func() error {
		for _, tool := range tools {
			if _, err := exec.LookPath(tool); err != nil {
				return err
			}
		}
		return nil
	}
	err := missing()
	switch {
	case err == nil:
		return
	case !inCI():
		t.Skipf("%v; ./install installs what is missing, from Debian's packages", err)
	}
	if out, err := exec.CommandContext(t.Context(), "./install").CombinedOutput(); err != nil {
		t.Fatalf("install %v: %v\n%s", tools, err, out)
	}
	if err := missing(); err != nil {
		t.Fatal(err)
	}
}

// CacheDir returns a folder outside the checkout for what a module builds or fetches.
func CacheDir(t testing.TB, module string) string {
	t.Helper()
	root, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "gapless-compat", module)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Must runs a command in a folder. If it fails, the test fails with its output.
func Must(t testing.TB, dir string, env []string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}
