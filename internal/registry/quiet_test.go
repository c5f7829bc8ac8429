package registry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// quiet runs a registry that leaves the content of deleted namespaces to clients for half a second.
func quiet(t *testing.T) *server {
	t.Helper()
	log := openLog(t)
	s, _ := serveWith(t, log, registry.Config{Store: log, NamespaceQuiet: 500 * time.Millisecond})
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	return s
}

// deleteNamespace deletes the namespace, and returns what waits until it is gone and says how long
// that took since a moment.
func (s *server) deleteNamespace() (gone func(since time.Time) time.Duration) {
	s.t.Helper()
	w := s.watch(s.at("namespaces"), nil) // before it can be gone
	s.delete(s.at("namespaces", "", "n"))
	return func(since time.Time) time.Duration {
		w.until(kube.Deleted, "n")
		return time.Since(since)
	}
}

// TestAClientFindsTheContentOfTheNamespaceThatItHasDeleted deletes a namespace with its content in
// the order of a file, as kubectl does, slowly.
func TestAClientFindsTheContentOfTheNamespaceThatItHasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quiet(t)
		for i := range 5 {
			s.create(s.at("configmaps", "n"), configMap(fmt.Sprint("c", i)))
		}
		s.create(s.at("configmaps", "n"), configMap("left"))
		gone := s.deleteNamespace()
		for i := range 5 {
			<-time.After(400 * time.Millisecond)
			if _, err := s.Delete(t.Context(), s.at("configmaps", "n", fmt.Sprint("c", i)), metav1.DeleteOptions{}); err != nil {
				t.Errorf("object %d: %v", i, err)
			}
		}
		if took := gone(time.Now()); took != 500*time.Millisecond {
			t.Errorf("the namespace has gone %v after the last deletion, want 500ms", took)
		}
	})
}

// TestANamespaceDoesNotWaitForAnEndlessClient: 5 s is the most, which upstream always waits.
func TestANamespaceDoesNotWaitForAnEndlessClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quiet(t)
		for i := range 20 {
			s.create(s.at("configmaps", "n"), configMap(fmt.Sprint("c", i)))
		}
		began := time.Now()
		s.delete(s.at("namespaces", "", "n"))
		for i := range 20 {
			<-time.After(400 * time.Millisecond)
			_, err := s.Delete(t.Context(), s.at("configmaps", "n", fmt.Sprint("c", i)), metav1.DeleteOptions{})
			if found, want := err == nil, time.Since(began) < 5*time.Second; found != want {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		if _, err := s.Get(t.Context(), s.at("namespaces", "", "n"), ""); wire.StatusOf(err).Code != 404 {
			t.Errorf("the namespace is still there: %v", err)
		}
	})
}

// TestANamespaceWithoutContentGoesAtOnce: what each namespace has of the server is no content.
func TestANamespaceWithoutContentGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quiet(t)
		s.create(s.at("configmaps", "n"), configMap("kube-root-ca.crt"))
		s.create(s.at("serviceaccounts", "n"), `{"metadata":{"name":"default"}}`)
		began := time.Now()
		if took := s.deleteNamespace()(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		// A later namespace of the name waits by itself.
		s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
		s.create(s.at("configmaps", "n"), configMap("a"))
		began = time.Now()
		if took := s.deleteNamespace()(began); took != 500*time.Millisecond {
			t.Errorf("with content it took %v, want 500ms", took)
		}
	})
}
