package gaplesstest_test

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/gapless-io/gapless/gaplesstest"
)

// The tests here are those of docs/testing.md, which the root package compares with this file.

func TestController(t *testing.T) {
	t.Parallel()            // each test has a server of its own
	s := gaplesstest.New(t) // 30 ms, and gone with the test
	s.InstallCRDs(t, "testdata/crds")
	s.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop}
`)
	clients := kubernetes.NewForConfigOrDie(s.RESTConfig())

	s.Inject(t, "conflict,verbs=delete,resources=namespaces,count=1") // the first one fails
	remove := func() error {
		return clients.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{})
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, remove); err != nil {
		t.Error(err)
	}

	reader := kubernetes.NewForConfigOrDie(s.User(t, "jane", "readers")) // nothing is bound to the group
	if _, err := reader.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("jane lists secrets: %v", err)
	}
}

func TestAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gaplesstest.New(t, gaplesstest.WithoutPort())
		clients := kubernetes.NewForConfigOrDie(s.RESTConfig())
		watch, err := clients.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour) // takes no time
		if _, open := <-watch.ResultChan(); open {
			t.Error("the watch is still open") // the server ends a watch after 30 to 60 minutes
		}
	})
}
