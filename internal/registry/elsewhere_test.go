package registry_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestANamespaceIsFinishedWhileOthersCannotBeRead, or what is in them.
func TestANamespaceIsFinishedWhileOthersCannotBeRead(t *testing.T) {
	for _, key := range []string{"namespaces/other", "configmaps/other/a"} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := sharing(t, openLog(t), registry.Config{})
				s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
				s.create(s.at("configmaps", "n"), configMap("a"))
				s.store(key, damaged)
				s.delete(s.at("namespaces", "", "n"))
				<-time.After(10 * time.Minute) // of the test's own time
				if _, err := s.Get(t.Context(), s.at("namespaces", "", "n"), ""); wire.StatusOf(err).Code != http.StatusNotFound {
					t.Errorf("the namespace is not finished: %v", err)
				}
			})
		})
	}
}

// TestErrorsDoNotNameObjectsOfOtherNamespaces: who may read one namespace does not learn what is in others.
func TestErrorsDoNotNameObjectsOfOtherNamespaces(t *testing.T) {
	s, _ := sharing(t, openLog(t), registry.Config{})
	open := s.watch(s.at("secrets", "default"), nil)
	open.take(1)
	s.store("secrets/other/hidden", damaged)
	check := func(named int) {
		t.Helper()
		_, listing := s.List(t.Context(), s.at("secrets", "default"), options(nil))
		_, known := s.List(t.Context(), s.at("secrets", "default"), options(func(o *wire.ListOptions) {
			o.ResourceVersion = "0"
		}))
		_, watching := s.Watch(t.Context(), s.at("secrets", "default"), options(nil))
		_, removing := s.DeleteCollection(t.Context(), s.at("secrets", "default"), metav1.DeleteOptions{}, options(nil))
		_, next := open.Next(t.Context())
		for what, err := range map[string]error{
			"list": listing, "list at 0": known, "watch": watching, "delete all": removing, "the watch that was open": next,
		} {
			got := wire.StatusOf(err)
			if err == nil || got.Reason != metav1.StatusReasonStoreReadError || strings.Contains(err.Error(), "hidden") ||
				got.Details == nil || len(got.Details.Causes) != named {
				t.Errorf("%s: %v with %v, want no name and %d causes", what, err, got.Details, named)
			}
		}
	}
	check(0)
	s.store("secrets/default/own", damaged)
	check(1)
	_, err := s.List(t.Context(), s.at("secrets"), options(nil))
	checkUnreadable(t, "list all namespaces", err, `"secrets/default/own"`)
	if got := wire.StatusOf(err); got.Details == nil || len(got.Details.Causes) != 2 {
		t.Errorf("list all namespaces: %v, want two causes", got.Details)
	}
}

// TestAnObjectIsUnknownUntilAStateOfItIsKnown: it is not missing, as Find and Objects would have it.
func TestAnObjectIsUnknownUntilAStateOfItIsKnown(t *testing.T) {
	s, _ := sharing(t, openLog(t), registry.Config{})
	s.create(s.at("configmaps", "default"), configMap("known"))
	s.store("configmaps/default/known", damaged)
	s.store("configmaps/default/lost", damaged)
	gr := kinds.GroupResource{Resource: "configmaps"}
	for _, name := range []string{"lost", ""} {
		for _, namespace := range []string{"default", ""} {
			checkUnreadable(t, "look for "+name, s.UnknownOf(gr, namespace, name), `"configmaps/default/lost"`)
		}
	}
	s.store("configmaps/default/lost", inStore("lost", "1"))
	for _, name := range []string{"known", "lost", "none", ""} {
		if err := s.UnknownOf(gr, "default", name); err != nil {
			t.Errorf("look for %q: %v", name, err)
		}
	}
}
