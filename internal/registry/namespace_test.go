package registry_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// until takes events until one is as wanted.
func (w *watcher) until(what kube.EventType, key string) wire.WatchEvent {
	w.t.Helper()
	for {
		if e := w.next(); e.Type == what && e.Object != nil && e.Object.Key().String() == key {
			return e
		}
	}
}

func TestInitialNamespacesExistWhenReady(t *testing.T) {
	s := serve(t)
	if diff := cmp.Diff([]string{"default", "kube-node-lease", "kube-public", "kube-system"},
		names(s.list(s.at("namespaces"), nil))); diff != "" {
		t.Error(diff)
	}
}

func TestNamespaceIsRemovedAfterItsContent(t *testing.T) {
	s := serve(t)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	s.create(s.at(crds), definition(""))
	for i := range 50 {
		s.create(s.at("configmaps", "n"), configMap(fmt.Sprintf("c%d", i)))
	}
	s.create(s.at("pods", "n"), podOnNode) // its node does not exist: no kubelet would end it
	s.create(s.at(foos, "n"), fooAt("held", `,"finalizers":["x.io/f"]`, ``))
	s.create(s.at("configmaps", "default"), configMap("other"))

	spaces := s.watch(s.at("namespaces"), nil)
	held := s.watch(s.at(foos, "n"), nil)
	marked := s.delete(s.at("namespaces", "", "n")).Object
	if !marked.Deleting() || field(t, marked, "status", "phase") != "Terminating" {
		t.Errorf("the answer is %s", marked.JSON())
	}
	// It may have got conditions by now.
	if again := s.delete(s.at("namespaces", "", "n")).Object; again.UID() != marked.UID() ||
		field(t, again, "metadata", "deletionTimestamp") != field(t, marked, "metadata", "deletionTimestamp") {
		t.Errorf("deleted again: %s", again.JSON())
	}
	_, err := s.Create(t.Context(), s.at("configmaps", "n"), []byte(configMap("late")), metav1.CreateOptions{})
	if diff := cmp.Diff(
		`403 Forbidden configmaps "late" is forbidden: unable to create new content in namespace n because it `+
			`is being terminated`, status(err)); diff != "" {
		t.Error(diff)
	}
	cause := wire.StatusOf(err).Details.Causes
	if diff := cmp.Diff([]metav1.StatusCause{
		{Type: "NamespaceTerminating", Message: "namespace n is being terminated", Field: "metadata.namespace"},
	}, cause); diff != "" {
		t.Error(diff)
	}
	held.until(kube.Modified, "n/held")
	if o := s.get(s.at("namespaces", "", "n")); !o.Deleting() {
		t.Errorf("something is held in it: %s", o.JSON())
	}
	s.merge(s.at(foos, "n", "held"), `{"metadata":{"finalizers":null}}`)
	spaces.until(kube.Deleted, "n")
	for _, r := range []string{"configmaps", "pods", foos} {
		if got := names(s.list(s.at(r, "n"), nil)); len(got) > 0 {
			t.Errorf("%s outlived their namespace: %v", r, got)
		}
	}
	if got := names(s.list(s.at("configmaps"), nil)); len(got) != 1 {
		t.Errorf("config maps of other namespaces: %v", got)
	}
}

func TestNamespaceWithAFinalizerIsEmptiedAndStays(t *testing.T) {
	s := serve(t)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n","finalizers":["x.io/f"]}}`)
	s.create(s.at("configmaps", "n"), configMap("a"))
	w := s.watch(s.at("namespaces"), nil)
	s.delete(s.at("namespaces", "", "n"))
	for field(t, w.until(kube.Modified, "n").Object, "spec", "finalizers") != nil {
	}
	s.merge(s.at("namespaces", "", "n"), `{"metadata":{"finalizers":null}}`)
	w.until(kube.Deleted, "n")
}

// TestTheEndOfANamespaceLeavesTheCatalogAsItIs: who ends it looks at pods first, and others read the catalog meanwhile.
func TestTheEndOfANamespaceLeavesTheCatalogAsItIs(t *testing.T) {
	s := serve(t)
	stored := func() (all []string) {
		for _, r := range s.live.Load().Stored() {
			all = append(all, r.GR().String())
		}
		return all
	}
	before := stored()
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	w := s.watch(s.at("namespaces"), nil)
	s.delete(s.at("namespaces", "", "n"))
	w.until(kube.Deleted, "n")
	if diff := cmp.Diff(before, stored()); diff != "" {
		t.Errorf("the resources of the catalog (-before +after):\n%s", diff)
	}
}

// TestANamespaceWithoutFinalizersIsEmptiedToo: somebody removed them before it was deleted.
func TestANamespaceWithoutFinalizersIsEmptiedToo(t *testing.T) {
	s := serve(t)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	s.create(s.at("configmaps", "n"), configMap("a"))
	finalize := s.at("namespaces", "", "n")
	finalize.Subresource = "finalize"
	if o := s.update(finalize, `{"metadata":{"name":"n"},"spec":{"finalizers":[]}}`); field(t, o, "spec", "finalizers") != nil {
		t.Fatalf("the namespace has finalizers: %s", o.JSON())
	}
	w := s.watch(s.at("namespaces"), nil)
	s.delete(s.at("namespaces", "", "n"))
	w.until(kube.Deleted, "n")
	if got := names(s.list(s.at("configmaps", "n"), nil)); len(got) > 0 {
		t.Errorf("%v outlived their namespace", got)
	}
}

func TestNoCreationSucceedsAfterNamespaceDeletionFoundItEmpty(t *testing.T) {
	s := serve(t)
	for round := range 20 {
		ns := fmt.Sprintf("n%d", round)
		s.create(s.at("namespaces"), `{"metadata":{"name":"`+ns+`"}}`)
		w := s.watch(s.at("namespaces"), nil)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for k := range 50 {
					_, err := s.Create(t.Context(), s.at("configmaps", ns), []byte(configMap(fmt.Sprintf("c%d-%d", i, k))),
						metav1.CreateOptions{})
					if code := wire.StatusOf(err).Code; err != nil && code != 403 && code != 404 {
						t.Errorf("create: %v", err)
					}
					if err != nil {
						return
					}
				}
			})
		}
		s.delete(s.at("namespaces", "", ns))
		w.until(kube.Deleted, ns)
		wg.Wait()
		if got := names(s.list(s.at("configmaps", ns), nil)); len(got) > 0 {
			t.Fatalf("round %d: %v outlived their namespace", round, got)
		}
		w.Close()
	}
}

func TestNamespaceDeletionContinuesAfterARestart(t *testing.T) {
	log := openLog(t)
	s, stop := serveOn(t, log, nil)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	s.create(s.at("configmaps", "n"), `{"metadata":{"name":"held","finalizers":["x.io/f"]}}`)
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "n"), foo("a", `{}`))
	s.delete(s.at("namespaces", "", "n"))
	stop()
	s, _ = serveOn(t, log, nil)
	w := s.watch(s.at("namespaces"), nil)
	s.merge(s.at("configmaps", "n", "held"), `{"metadata":{"finalizers":null}}`)
	w.until(kube.Deleted, "n")
	if got := names(s.list(s.at(foos), nil)); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
