package registry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

// heldDeletions is a store in which deletions of some keys wait, once each.
type heldDeletions struct {
	store.Store

	held map[string]*heldDeletion // by how the keys begin
}

type heldDeletion struct{ begun, goOn chan struct{} }

// Commit implements store.Store.
func (s *heldDeletions) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	for start, h := range s.held {
		if t.Delete && strings.HasPrefix(t.Key, start) {
			select {
			case h.begun <- struct{}{}: // the test waits for the first one only
				<-h.goOn
			case <-h.goOn:
			}
		}
	}
	return s.Store.Commit(ctx, t)
}

// until waits until a deletion is held.
func (s *heldDeletions) until(t *testing.T, start string) {
	t.Helper()
	select {
	case <-s.held[start].begun:
	case <-t.Context().Done():
		t.Fatalf("no object is deleted below %s", start)
	}
}

// TestWhatReplacesAContainerKeepsItsContent: while the content of namespaces and definitions is deleted, somebody else
// removes one of them, creates it again, and fills it.
func TestWhatReplacesAContainerKeepsItsContent(t *testing.T) {
	const other = "afoos.t.example.com"
	log := openLog(t)
	files := &heldDeletions{Store: log, held: map[string]*heldDeletion{}}
	for _, start := range []string{"pods/first/", other + "/", "pods/a/", "pods/n/"} {
		files.held[start] = &heldDeletion{make(chan struct{}), make(chan struct{})}
	}
	s, _ := serveOn(t, log, func(store.Store) store.Store { return files })
	for _, name := range []string{"first", "a", "m", "n", "z"} {
		s.create(s.at("namespaces"), `{"metadata":{"name":"`+name+`"}}`)
		s.create(s.at("pods", name), podOnNode)
	}
	s.create(s.at(crds), definition(""))
	s.create(s.at(crds), strings.NewReplacer("foos", "afoos", "Foo", "AFoo").Replace(definition("")))
	s.create(s.at("t.example.com/v1/afoos", "default"), strings.Replace(foo("x", "{}"), "Foo", "AFoo", 1))
	spaces := s.watch(s.at("namespaces"), nil)

	s.delete(s.at("namespaces", "", "first"))
	files.until(t, "pods/first/")
	// The next round sees all of these under deletion, and deletes their content in this order.
	for _, name := range []string{other, "foos.t.example.com"} {
		s.delete(s.at(crds, "", name))
	}
	for _, name := range []string{"a", "m", "n", "z"} {
		s.delete(s.at("namespaces", "", name))
	}
	close(files.held["pods/first/"].goOn)

	files.until(t, other+"/")
	s.merge(s.at(crds, "", "foos.t.example.com"), `{"metadata":{"finalizers":null}}`)
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("new", "{}"))
	close(files.held[other+"/"].goOn)

	replace := func(name string) {
		t.Helper()
		s.update(s.at("namespaces", "", name, "finalize"), `{"metadata":{"name":"`+name+`"},"spec":{"finalizers":[]}}`)
		s.create(s.at("namespaces"), `{"metadata":{"name":"`+name+`"}}`)
		s.create(s.at("configmaps", name), configMap("new"))
	}
	files.until(t, "pods/a/")
	replace("m") // which comes next
	close(files.held["pods/a/"].goOn)
	files.until(t, "pods/n/")
	replace("n") // of which the pods are being deleted
	close(files.held["pods/n/"].goOn)

	spaces.until(kube.Deleted, "z")
	for _, at := range []string{"m", "n"} {
		if diff := cmp.Diff([]string{at + "/new"}, names(s.list(s.at("configmaps", at), nil))); diff != "" {
			t.Errorf("the ConfigMaps of namespace %s, which was created again: %s", at, diff)
		}
	}
	if diff := cmp.Diff([]string{"default/new"}, names(s.list(s.at(foos, "default"), nil))); diff != "" {
		t.Errorf("the objects of the definition that was created again: %s", diff)
	}
}
