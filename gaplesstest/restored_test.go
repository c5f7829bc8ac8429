package gaplesstest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/gaplesstest"
)

// watcher opens the watches of a RetryWatcher.
type watcher func(context.Context, metav1.ListOptions) (watch.Interface, error)

func (w watcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w(ctx, o)
}

// TestARetryWatcherEndsAfterARestore: client-go's RetryWatcher, as the watches of most languages,
// goes on from the last version that it knows, which the restored data does not have. Before a
// kube-apiserver it is silent until the new history passes that version, and wrong from then on.
func TestARetryWatcherEndsAfterARestore(t *testing.T) {
	t.Parallel()
	for _, store := range []fault.Store{fault.OlderStore, fault.WipedStore} {
		synctest.Test(t, func(t *testing.T) {
			s := gaplesstest.New(t, gaplesstest.WithoutPort())
			maps := client(t, s.RESTConfig()).CoreV1().ConfigMaps("default")
			create(t, client(t, s.RESTConfig()), "a")
			s.Keep(t)
			var last *corev1.ConfigMap
			for i := range 20 {
				last = create(t, client(t, s.RESTConfig()), fmt.Sprint("b", i))
			}
			w, err := watchtools.NewRetryWatcherWithContext(t.Context(), last.ResourceVersion, watcher(maps.Watch))
			if err != nil {
				t.Fatalf("make a retry watcher with context: %v", err)
			}
			defer w.Stop()
			s.RestartWith(t, store)
			select {
			case e := <-w.ResultChan():
				if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
					t.Errorf("with the store %q the watch says %s %v, want 410", store, e.Type, err)
				}
			case <-time.After(2 * time.Minute):
				t.Errorf("with the store %q the watch is silent for two minutes", store)
			}
		})
	}
}
