package e2e_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
)

// outage is how clients see a server that is away.
type outage string

const (
	connectionsRefused outage = "refused"
	badGateway         outage = "502"
)

// front is a fixed address before a server: a gate, or a proxy that answers 502.
type front struct {
	cfg     func(*rest.Config) *rest.Config
	connect func(*launched) // nil: to none
}

func newFront(t *testing.T, how outage) front {
	t.Helper()
	if how == connectionsRefused {
		g := newGate(t)
		return front{cfg: g.config, connect: func(l *launched) {
			if l == nil {
				g.connect("")
				return
			}
			g.connect(host(t, l.URL()))
		}}
	}
	var to atomic.Pointer[httputil.ReverseProxy]
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := to.Load(); p != nil {
			p.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return front{
		cfg: func(*rest.Config) *rest.Config { return &rest.Config{Host: web.URL} },
		connect: func(l *launched) {
			if l == nil {
				to.Store(nil)
				return
			}
			target, err := url.Parse(l.URL())
			if err != nil {
				t.Fatalf("parse an address: %v", err)
			}
			transport := &http.Transport{TLSClientConfig: l.tlsConfig()}
			t.Cleanup(transport.CloseIdleConnections)
			p := httputil.NewSingleHostReverseProxy(target)
			p.Transport, p.FlushInterval = transport, -1
			to.Store(p)
		},
	}
}

// TestInformerDetectsAServerRestoredFromACopy of its data directory: while it is
// behind what it had told, and when it is beyond that already; and a mere restart is none.
func TestInformerDetectsAServerRestoredFromACopy(t *testing.T) {
	for _, how := range []outage{connectionsRefused, badGateway} {
		for _, back := range []string{"restarted", "quiet", "busy"} {
			t.Run(fmt.Sprintf("%s, %s", how, back), func(t *testing.T) {
				t.Parallel()
				restored(t, how, back)
			})
		}
	}
}

func restored(t *testing.T, how outage, back string) {
	f := newFront(t, how)
	cfg := gapless.Config{DataDir: filepath.Join(t.TempDir(), "data")}
	first := launch(t, cfg)
	c := first.caller(t, http2)
	for n := range 20 {
		c.create("default", fmt.Sprint("o", n), "1")
	}
	c.http.CloseIdleConnections()
	first.stop()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(cfg.DataDir)); err != nil {
		t.Fatalf("copy the directory: %v", err)
	}
	second := launch(t, cfg)
	f.connect(second)
	all := informer.New(informer.For[*corev1.ConfigMap](f.cfg(second.RESTConfig()),
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		informer.Namespace("default")))
	defer runInformer(t, all)()
	if err := all.WaitSynced(t.Context()); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	c = second.caller(t, http2)
	c.relabel("default", "o1", "lost")
	c.create("default", "lost", "1")
	c.remove("default", "o2")
	last := c.relabel("default", "o3", "lost").rv()
	if err := all.WaitRevision(t.Context(), last); err != nil {
		t.Fatalf("wait for the revision: %v", err)
	}
	c.http.CloseIdleConnections()
	f.connect(nil)
	second.stop()
	if back != "restarted" {
		cfg.DataDir = copied
		err := filepath.WalkDir(copied, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			return os.Chmod(path, 0o600) // as it was
		})
		if err != nil {
			t.Fatalf("walk over a directory: %v", err)
		}
	}
	third := launch(t, cfg)
	c = third.caller(t, http2)
	c.relabel("default", "o1", "kept") // at the version of the lost one
	if back == "busy" {
		for n := range 20 {
			c.relabel("default", "o4", fmt.Sprint(n))
		}
	}
	f.connect(third)
	same := func() bool {
		want, got := map[string]string{}, map[string]string{}
		list := c.must(http.StatusOK, http.MethodGet, configMaps, "")
		for _, item := range list["items"].([]any) { //nolint:forcetypeassert // it is a list
			o := tree(item.(map[string]any)) //nolint:forcetypeassert // of objects
			want[o.text("metadata", "name")] = o.rv() + " " + o.text("metadata", "labels", "x")
		}
		for key, o := range all.All() {
			got[key.Name] = o.ResourceVersion + " " + o.Labels["x"]
		}
		return maps.Equal(want, got)
	}
	until(t, "the cache is the server's state", time.Minute, same)
	s := all.Status()
	if went := s.Incidents[informer.WentBack]; (went == 0) != (back == "restarted") {
		t.Errorf("%d incidents of a history that went back: %+v", went, s)
	}
	if back == "restarted" && s.Lists != 1 {
		t.Errorf("a restart was read again: %+v", s)
	}
}
