package gapless_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// gate is an address that outlives servers: it leads to one, or to none.
type gate struct {
	listener net.Listener
	all      sync.WaitGroup

	// mu guards to and open.
	mu   sync.Mutex
	to   string
	open map[net.Conn]bool
}

// newGate returns a closed gate, which ends with the test.
func newGate(t *testing.T) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener, open: map[net.Conn]bool{}}
	g.all.Go(g.accept) // ends when the listener is closed
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		g.lead("")
		g.all.Wait()
	})
	return g
}

// lead lets the gate lead to an address; "" closes it, and all connections.
func (g *gate) lead(to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
	for conn := range g.open {
		_ = conn.Close() // both ends see that
	}
	clear(g.open)
}

func (g *gate) accept() {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		to := g.to
		g.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if to == "" || err != nil {
			_ = in.Close() // that is the point of it
			continue
		}
		g.mu.Lock()
		g.open[in], g.open[out] = true, true
		if g.to != to {
			_, _ = in.Close(), out.Close() // closed meanwhile
		}
		g.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			g.all.Go(func() { // ends when either is closed
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// config is a client's that goes through the gate.
func (g *gate) config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + g.listener.Addr().String()
	return cfg
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// program is one start of a program with an informer that keeps its cache on disk.
type program struct {
	*informer.Informer[*corev1.ConfigMap]

	told    toldLog
	handler *informer.Registration
	stop    func()
}

func start(t *testing.T, source informer.Source[*corev1.ConfigMap], dir string) *program {
	t.Helper()
	p := &program{Informer: informer.New(source, informer.Persist(dir))}
	p.handler = p.Handle(p.told.handle)
	p.stop = keep(t, p.Informer)
	if err := p.handler.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// hear waits until n things were told since the beginning, and returns what was not
// told of the first m.
func (p *program) hear(t *testing.T, n, m int) []string {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(p.told.since(0)) < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d events; status %+v", len(p.told.since(0)), n, p.Status())
		}
	}
	return p.told.since(m)
}

// TestInformersBeginWarm: a program starts without a server and has everything; then
// the server is back, restarted, and tells what 500 writes did meanwhile, without a
// list; then history is gone, and the difference is exact.
func TestInformersBeginWarm(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]informer.SourceOption{
		"all of it":           nil,
		"JSON":                {informer.JSONOnly()},
		"several namespaces":  {informer.Namespaces("default", "east")},
		"without what is big": {informer.StripManagedFields()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, g, dir := live(t), newGate(t), t.TempDir()
			g.lead(host(t, l.server.URL()))
			source := func() informer.Source[*corev1.ConfigMap] {
				return informer.For[*corev1.ConfigMap](g.config(l.server.RESTConfig()), corev1.SchemeGroupVersion.WithResource("configmaps"), opts...)
			}
			l.namespace("east")
			for n := range 400 {
				l.create("default", fmt.Sprintf("o%03d", n), "1")
			}
			l.create("east", "quiet", "1")
			first := start(t, source(), dir)
			objects := first.Len()
			first.stop()
			g.lead("")

			var want []string
			for n := range 400 {
				name := fmt.Sprintf("o%03d", n)
				if n%4 == 0 {
					l.remove("default", name)
					l.create("default", "new-"+name, "1")
					want = append(want, "Deleted default/"+name+" false false", "Added default/new-"+name+" false false")
				} else {
					l.relabel("default", name, "2")
					want = append(want, "Modified default/"+name+" false false")
				}
			}
			slices.Sort(want)
			l.restart(t)
			second := start(t, source(), dir)
			if second.Len() != objects || !second.Status().LastContact.IsZero() {
				t.Errorf("without a server %d of %d objects, status %+v", second.Len(), objects, second.Status())
			}
			g.lead(host(t, l.server.URL()))
			if got := second.hear(t, objects+len(want), objects); !slices.Equal(got, want) {
				t.Errorf("%d events, want %d: %q", len(got), len(want), got[:min(len(got), 10)])
			}
			if s := second.Status(); s.Lists != 0 || s.Gone != 0 {
				t.Errorf("status %+v", s)
			}
			second.stop()
			g.lead("")

			l.relabel("default", "o001", "3")
			l.remove("default", "o002")
			last := l.create("default", "z", "1").rv()
			if _, err := l.server.Compact(t.Context(), kube.ResourceVersion(number(t, last))); err != nil {
				t.Fatal(err)
			}
			third := start(t, source(), dir)
			objects = third.Len()
			g.lead(host(t, l.server.URL()))
			want = []string{"Added default/z false false", "Deleted default/o002 false true", "Modified default/o001 false false"}
			if got := third.hear(t, objects+len(want), objects); !slices.Equal(got, want) {
				t.Errorf("after the 410: %q", got)
			}
			if s := third.Status(); s.Gone == 0 || s.Lists == 0 {
				t.Errorf("status %+v", s)
			}
			third.stop()
			if got := len(third.told.since(objects)); got != len(want) {
				t.Errorf("%d events after the 410, want %d", got, len(want))
			}
		})
	}
}

// TestAnotherServersFileIsNotUsed: the address is the same, and so are the names.
func TestAnotherServersFileIsNotUsed(t *testing.T) {
	t.Parallel()
	g, dir := newGate(t), t.TempDir()
	for _, want := range []string{"a", "b"} {
		l := live(t)
		g.lead(host(t, l.server.URL()))
		l.create("default", want, "1")
		p := start(t, informer.For[*corev1.ConfigMap](g.config(l.server.RESTConfig()), corev1.SchemeGroupVersion.WithResource("configmaps"),
			informer.Namespace("default")), dir)
		if got := names(p.Informer); got != "default/"+want {
			t.Errorf("the cache has %s, want %s", got, want)
		}
		p.stop()
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.warm"))
	if err != nil || len(files) != 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if err := errors.Join(os.RemoveAll(dir), err); err != nil {
		t.Error(err)
	}
}
