package registry_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
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

// far is a store that takes its time to answer, as another machine does.
type far struct{ store.Store }

func (f far) Read(ctx context.Context, q store.Query) (store.Page, error) {
	<-time.After(50 * time.Millisecond)
	return f.Store.Read(ctx, q)
}

func (f far) Progress(ctx context.Context) (int64, error) {
	<-time.After(50 * time.Millisecond)
	return f.Store.Progress(ctx)
}

// behind is an aggregated server, which has nothing in any namespace.
type behind struct{}

func (behind) MayHaveContent() bool { return true }

func (behind) DeleteContent(context.Context, string) wire.Content {
	<-time.After(time.Millisecond)
	return wire.Content{}
}

// TestManyNamespacesEndBesideAnAggregatedServer: one look at all of them takes longer than an answer of that server counts
// while a namespace waits for something else.
func TestManyNamespacesEndBesideAnAggregatedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t)
		s, _ := sharing(t, log, registry.Config{Store: far{log}, Elsewhere: behind{}})
		const many = 12
		for i := range many {
			name := fmt.Sprintf("n%d", i)
			s.create(s.at("namespaces"), `{"metadata":{"name":"`+name+`"}}`)
			s.create(s.at("configmaps", name), configMap("a"))
		}
		for i := range many {
			s.delete(s.at("namespaces", "", fmt.Sprintf("n%d", i)))
		}
		<-time.After(10 * time.Minute) // of the test's own time
		for i := range many {
			name := fmt.Sprintf("n%d", i)
			if _, err := s.Get(t.Context(), s.at("namespaces", "", name), ""); wire.StatusOf(err).Code != http.StatusNotFound {
				t.Errorf("the namespace %s is not finished: %v", name, err)
			}
		}
	})
}
