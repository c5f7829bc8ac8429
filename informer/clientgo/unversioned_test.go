package clientgo_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer/clientgo"
)

// TestListsWithoutAResourceVersionAreTaken, as hand-made ListWatches of tests have them.
func TestListsWithoutAResourceVersionAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := watch.NewFake()
		named := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		}
		lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
				return &corev1.ConfigMapList{Items: []corev1.ConfigMap{*named("a")}}, nil
			},
			WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
				if o.ResourceVersion != "" {
					t.Errorf("a watch from %q", o.ResourceVersion)
				}
				return events, nil
			},
		}, noStreams{})
		i := clientgo.New(lw, &corev1.ConfigMap{}, 0, nil)
		l := newLog()
		if _, err := i.AddEventHandler(l); err != nil {
			t.Fatal(err)
		}
		run(t, func() {
			after(settled)
			events.Add(named("b"))
			events.Delete(named("a"))
			after(settled)
		}, i)
		want := calls{"ns/a": {"initial @=", "delete @="}, "ns/b": {"add @="}}
		if diff := cmp.Diff(want, l.told()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// noStreams is a client that says so.
type noStreams struct{}

// IsWatchListSemanticsUnSupported is what client-go asks clients.
func (noStreams) IsWatchListSemanticsUnSupported() bool { return true }
