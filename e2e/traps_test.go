package e2e_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
)

// TestInformerWaitsForItsDefinition: it runs before there is a definition of what it
// watches, says so, and is there when it comes, also when it goes and comes again.
func TestInformerWaitsForItsDefinition(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	gvr := schema.GroupVersionResource{Group: "t.example.com", Version: "v1", Resource: "foos"}
	missing := make(chan struct{}, 64)
	said := func(in informer.Incident) {
		if in.Kind == informer.NotServed {
			select {
			case missing <- struct{}{}:
			default: // the first are enough
			}
		}
	}
	all := informer.New(informer.Dynamic(s.RESTConfig(), gvr), informer.OnError(said))
	runInformer(t, all)
	<-missing
	if all.ResourceVersion() != "" {
		t.Error("nothing is taken for an empty state")
	}
	has := func(value string) {
		t.Helper()
		_, err := all.Until(t.Context(), informer.Key{Namespace: "default", Name: "f"},
			func(o *unstructured.Unstructured, found bool) bool {
				if !found {
					return value == ""
				}
				a, _, _ := unstructured.NestedString(o.Object, "spec", "a")
				return a == value
			})
		if err != nil {
			t.Fatalf("wait for all: %v", err)
		}
	}
	c.define(false, false, false)
	c.foo("f", "1")
	has("1")
	c.must(http.StatusOK, http.MethodDelete, definitions+"/foos.t.example.com", "")
	has("")
	for len(missing) > 0 {
		<-missing
	}
	<-missing
	c.define(false, false, false)
	c.foo("f", "2")
	has("2")
}

// TestMetadataInformerReceivesAndKeepsOnlyMetadata of whole objects, from a server that knows how.
func TestMetadataInformerReceivesAndKeepsOnlyMetadata(t *testing.T) {
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	c.create("default", "a", "1")
	maps := informer.New(informer.Metadata(s.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps")))
	runInformer(t, maps)
	if err := maps.WaitSynced(t.Context()); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	rv := c.create("default", "b", "1").rv()
	if err := maps.WaitRevision(t.Context(), rv); err != nil {
		t.Fatalf("wait for the revision: %v", err)
	}
	for k, o := range maps.All() {
		if want := (metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}); o.TypeMeta != want ||
			o.UID == "" {
			t.Errorf("%s is %v", k, o)
		}
	}
	if got := names(maps); got != "default/a default/b" {
		t.Errorf("the cache has %s", got)
	}
}
