package processtest_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless/gaplesstest/processtest"
)

// The test here is that of docs/testing.md, which the root package compares with this file.

func TestControllerInItsOwnModule(t *testing.T) {
	t.Parallel()
	s := processtest.New(t, processtest.Manifests("testdata/crds")) // it ends with the test, also if that is killed
	clients := kubernetes.NewForConfigOrDie(s.RESTConfig())
	before, err := clients.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	s.Crash(t) // SIGKILL, and a start with what was answered
	if _, err := clients.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	s.Compact(t)
	watch, err := clients.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if e := <-watch.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("the first event is %v", e)
	}
}
