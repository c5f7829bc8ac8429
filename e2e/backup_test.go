package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/internal/backup"
)

// backedUp is a server that serves a restored backup. Clients know versions from before the backup, and such
// as were written after it.
type backedUp struct {
	*caller

	before, lost string // resourceVersions of the old server: before the backup, and after it
	since        int64  // where the restored server begins
}

// restoreBackup runs a server, takes a backup of it, changes more, and runs one that is restored. meet and
// leave are called with the old server before what is lost is written, and after it.
func restoreBackup(t *testing.T, meet func(*launched), leave func(c *caller, last string)) (*launched, backedUp) {
	t.Helper()
	cfg := gapless.Config{DataDir: filepath.Join(t.TempDir(), "data")}
	first := launch(t, cfg)
	c := first.caller(t, http2)
	for n := range 20 {
		c.create("default", fmt.Sprint("o", n), "1")
	}
	b := backedUp{before: c.relabel("default", "o0", "2").rv()}
	meet(first)
	taken := c.do(http.MethodPost, "/gapless/v1/backup", "{}")
	if taken.code != http.StatusOK {
		t.Fatalf("take a backup: %d %s", taken.code, taken.body)
	}
	c.relabel("default", "o1", "lost")
	c.create("default", "lost", "1")
	c.remove("default", "o2")
	b.lost = c.relabel("default", "o3", "lost").rv()
	leave(c, b.lost)
	c.http.CloseIdleConnections()
	first.stop()

	dir := filepath.Join(t.TempDir(), "restored")
	done, err := backup.Restore(t.Context(), bytes.NewReader(taken.body), backup.RestoreOptions{Dir: dir})
	if err != nil {
		t.Fatalf("restore the backup: %v", err)
	}
	keepCredentials(t, cfg.DataDir, dir)
	b.since = done.Revision
	second := launch(t, gapless.Config{DataDir: dir})
	b.caller = second.caller(t, http2)
	return second, b
}

// keepCredentials copies the certificates and keys of a server to a restored one.
func keepCredentials(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(to, "pki"), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(from, "pki", "*"))
	if err != nil {
		t.Fatalf("find the credentials: %v", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "pki", filepath.Base(file)), body, 0o600)
		}
		if err != nil {
			t.Fatalf("copy the credentials: %v", err)
		}
	}
}

// TestVersionsFromBeforeARestoreExpireWithTheCause asks the restored server for every kind of read.
func TestVersionsFromBeforeARestoreExpireWithTheCause(t *testing.T) {
	t.Parallel()
	var history string
	var pages []string
	page := func(c *caller) {
		list := c.must(http.StatusOK, http.MethodGet, configMaps+"?limit=5", "")
		pages = append(pages, url.QueryEscape(list.text("metadata", "continue")))
	}
	_, b := restoreBackup(t, func(l *launched) {
		c := l.caller(t, http2)
		history = c.do(http.MethodGet, configMaps, "", "Gapless-History: ?").header.Get("Gapless-History")
		page(c)
	}, func(c *caller, _ string) { page(c) })
	if history == "" {
		t.Fatal("the server does not name its history")
	}
	replaced := func(what, path string, headers ...string) {
		t.Helper()
		got := b.do(http.MethodGet, path, "", headers...)
		status := got.tree(t)
		if object, is := status.at("object").(map[string]any); is {
			status = object // of a watch
		}
		if status["code"] != float64(http.StatusGone) || !strings.Contains(string(got.body), `"message":"Replaced"`) {
			t.Errorf("%s: %d %.400s; want 410, Replaced", what, got.code, got.body)
		}
	}
	for name, rv := range map[string]string{
		"before the backup": b.before, "lost": b.lost, "skipped": fmt.Sprint(b.since - 1), "future": fmt.Sprint(b.since + 1e6),
	} {
		replaced("a watch from a version "+name, configMaps+"?watch=1&timeoutSeconds=10&resourceVersion="+rv)
		replaced("a watch of nothing that exists from a version "+name,
			"/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=10&resourceVersion="+rv)
		if name == "future" { // as upstream: it may come
			continue
		}
		replaced("an exact list of a version "+name, configMaps+"?resourceVersionMatch=Exact&resourceVersion="+rv)
		replaced("a list not older than a version "+name+", with the history that it is of",
			configMaps+"?resourceVersion="+rv, "Gapless-History: "+history)
		list := b.must(http.StatusOK, http.MethodGet, configMaps+"?resourceVersion="+rv, "")
		if number(t, list.rv()) < b.since || strings.Contains(list.keys(), "lost") || !strings.Contains(list.keys(), "o2") {
			t.Errorf("a list not older than a version %s is of %s: %s", name, list.rv(), list.keys())
		}
	}
	for i, token := range pages {
		replaced(fmt.Sprintf("page %d", i), configMaps+"?limit=5&continue="+token)
	}
	if rv := number(t, b.relabel("default", "o5", "new").rv()); rv <= b.since {
		t.Errorf("a write gets %d, want more than %d", rv, b.since)
	}
	o := b.must(http.StatusOK, http.MethodGet, configMaps+"/o0", "")
	if o.rv() != b.before || o.text("metadata", "labels", "x") != "2" {
		t.Errorf("an object is not as it was: %v", o)
	}
}

// TestClientsFromBeforeARestoreHaveTheRestoredState follows a server through a gate that leads to the
// restored one later: directly, and through a relay. (compat/clientgo does it with client-go's informers.)
func TestClientsFromBeforeARestoreHaveTheRestoredState(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	var clients map[string]func() map[string]string
	same := func(c *caller) func() bool {
		return func() bool {
			want := map[string]string{}
			list := c.must(http.StatusOK, http.MethodGet, configMaps, "")
			for _, item := range list["items"].([]any) { //nolint:forcetypeassert // it is a list
				o := tree(item.(map[string]any)) //nolint:forcetypeassert // of objects
				want[o.text("metadata", "name")] = o.rv() + " " + o.text("metadata", "labels", "x")
			}
			for name, has := range clients {
				if got := has(); !maps.Equal(got, want) {
					t.Logf("%s has %v, want %v", name, got, want)
					return false
				}
			}
			return true
		}
	}
	second, b := restoreBackup(t, func(l *launched) {
		g.connect(host(t, l.URL()))
		direct := g.config(l.RESTConfig())
		clients = map[string]func() map[string]string{
			"direct": watchByInformer(t, direct), "behind a relay": watchByInformer(t, relayOf(t, direct)),
		}
	}, func(c *caller, _ string) {
		until(t, "all clients have what will be lost", time.Minute, same(c))
		g.connect("")
	})
	b.relabel("default", "o5", "new")
	g.connect(host(t, second.URL()))
	until(t, "all clients have the restored state", 2*time.Minute, same(b.caller))
	b.relabel("default", "o6", "newer")
	until(t, "all clients follow the restored server", time.Minute, same(b.caller))
}

// relayOf runs a relay in front of a server, and returns how clients reach it.
func relayOf(t *testing.T, upstream *rest.Config) *rest.Config {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, upstream.CAData, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	r, err := gapless.NewRelay(gapless.RelayConfig{
		Upstream: upstream, Memory: true, Listen: "127.0.0.1:0", Resources: []string{"configmaps"},
		Access: gapless.RelayAccess{ClientCAFile: ca},
	})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run the relay: %v", err)
		}
	})
	select {
	case <-r.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatalf("the relay has ended: %v", err)
	}
	cfg := rest.CopyConfig(upstream)
	cfg.Host, cfg.CAData = r.URL(), r.CA()
	return cfg
}

// watchByInformer runs our informer, and returns what it has.
func watchByInformer(t *testing.T, cfg *rest.Config) func() map[string]string {
	t.Helper()
	all := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps"),
		informer.Namespace("default")))
	runInformer(t, all)
	return func() map[string]string {
		got := map[string]string{}
		for key, o := range all.All() {
			got[key.Name] = o.ResourceVersion + " " + o.Labels["x"]
		}
		return got
	}
}
