package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// program is one start of a program with an informer that keeps its cache on disk.
type program struct {
	*informer.Informer[*corev1.ConfigMap]

	received deliveries
	handler  *informer.Registration
	stop     func()
}

func start(t *testing.T, source informer.Source[*corev1.ConfigMap], dir string) *program {
	t.Helper()
	p := &program{Informer: informer.New(source, informer.Persist(dir))}
	p.handler = p.Handle(p.received.handle)
	p.stop = runInformer(t, p.Informer)
	if err := p.handler.WaitSynced(t.Context()); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	return p
}

// receive waits until the handler received n events, and returns those after the
// first m.
func (p *program) receive(t *testing.T, n, m int) []string {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(p.received.since(0)) < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d events; status %+v", len(p.received.since(0)), n, p.Status())
		}
	}
	return p.received.since(m)
}

// TestInformersStartFromTheirSnapshotFile: a program starts without a server and has everything; then
// the server is back, restarted, and tells what 500 writes did meanwhile, without a
// list; then history is gone, and the difference is exact.
func TestInformersStartFromTheirSnapshotFile(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]informer.SourceOption{
		"all of it":           nil,
		"JSON":                {informer.JSONOnly()},
		"several namespaces":  {informer.Namespaces("default", "east")},
		"without what is big": {informer.StripManagedFields()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, g, dir := launchRestartable(t), newGate(t), t.TempDir()
			g.connect(host(t, l.server.URL()))
			source := func() informer.Source[*corev1.ConfigMap] {
				return informer.For[*corev1.ConfigMap](g.config(l.server.RESTConfig()),
					corev1.SchemeGroupVersion.WithResource("configmaps"), opts...)
			}
			l.namespace("east")
			for n := range 400 {
				l.create("default", fmt.Sprintf("o%03d", n), "1")
			}
			l.create("east", "quiet", "1")
			first := start(t, source(), dir)
			objects := first.Len()
			first.stop()
			g.connect("")

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
			g.connect(host(t, l.server.URL()))
			if got := second.receive(t, objects+len(want), objects); !slices.Equal(got, want) {
				t.Errorf("%d events, want %d: %q", len(got), len(want), got[:min(len(got), 10)])
			}
			if s := second.Status(); s.Lists != 0 || s.Gone != 0 {
				t.Errorf("status %+v", s)
			}
			second.stop()
			g.connect("")

			l.relabel("default", "o001", "3")
			l.remove("default", "o002")
			last := l.create("default", "z", "1").rv()
			if _, err := l.server.Compact(t.Context(), kube.ResourceVersion(number(t, last))); err != nil {
				t.Fatalf("compact server: %v", err)
			}
			third := start(t, source(), dir)
			objects = third.Len()
			g.connect(host(t, l.server.URL()))
			want = []string{"Added default/z false false", "Deleted default/o002 false true", "Modified default/o001 false false"}
			if got := third.receive(t, objects+len(want), objects); !slices.Equal(got, want) {
				t.Errorf("after the 410: %q", got)
			}
			if s := third.Status(); s.Gone == 0 || s.Lists == 0 {
				t.Errorf("status %+v", s)
			}
			third.stop()
			if got := len(third.received.since(objects)); got != len(want) {
				t.Errorf("%d events after the 410, want %d", got, len(want))
			}
		})
	}
}

// TestSnapshotFileOfAnotherServerIsNotUsed: the address is the same, and so are the names.
func TestSnapshotFileOfAnotherServerIsNotUsed(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	g, dir := newGate(t), t.TempDir()
	for _, want := range []string{"a", "b"} {
		l := launchRestartable(t)
		g.connect(host(t, l.server.URL()))
		l.create("default", want, "1")
		p := start(t,
			informer.For[*corev1.ConfigMap](g.config(l.server.RESTConfig()), corev1.SchemeGroupVersion.WithResource("configmaps"),
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
		t.Errorf("remove a directory: %v", err)
	}
}
