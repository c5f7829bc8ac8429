package informer_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/informer"
)

// synced is an informer of 1 000 pods, and what ends it.
func synced[T informer.Object](t *testing.T, source informer.Source[T]) *informer.Informer[T] {
	t.Helper()
	i := informer.New(source, informer.NoStreamingLists())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	if err := i.WaitSynced(ctx); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	return i
}

func TestEncodedObjectsDecodeToTheSameObjects(t *testing.T) {
	const n = 300
	typed := synced(t, informer.Encode(informer.From("pods", cannedPods(n), informer.JSON[*corev1.Pod]())))
	dynamic := synced(t, informer.Encode(informer.From("pods", cannedPods(n), informer.JSON[*unstructured.Unstructured]())))
	if typed.Len() != n || dynamic.Len() != n {
		t.Fatalf("there are %d and %d pods", typed.Len(), dynamic.Len())
	}
	for k := range n {
		var want corev1.Pod
		if err := json.Unmarshal([]byte(realisticPod(k, 50)), &want); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		key := informer.Key{Namespace: want.Namespace, Name: want.Name}
		got, found := typed.Get(key)
		if !found {
			t.Fatalf("%s is not there", key)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Fatal(diff)
		}
		u, _ := dynamic.Get(key)
		if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); node != want.Spec.NodeName {
			t.Errorf("%s is on %q", key, node)
		}
	}
}

func TestAnEncodedObjectKeepsItsPointerWhileInUse(t *testing.T) {
	pods := synced(t, informer.Encode(informer.From("pods", cannedPods(10), informer.JSON[*corev1.Pod]())))
	var keys []informer.Key
	for k := range pods.All() {
		keys = append(keys, k)
	}
	for _, k := range keys {
		func() {
			first, _ := pods.Get(k)
			first.Spec.NodeName = "marked" // only to tell it from another one
			runtime.GC()
			if again, _ := pods.Get(k); again != first {
				t.Error("another object, though the first is held")
			}
			runtime.KeepAlive(first)
		}()
		runtime.GC()
		if p, _ := pods.Get(k); p.Spec.NodeName == "marked" {
			t.Error("the object is kept though nobody holds it")
		}
	}
}

func TestEncodedObjectsNeedAFifthOfTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n = 3000
	backend := cannedPods(n)
	before := heap()
	pods := synced(t, informer.Encode(informer.From("pods", backend, informer.JSON[*corev1.Pod]())))
	held := heap() - before
	runtime.KeepAlive(pods)
	runtime.KeepAlive(backend)
	if perPod := held / n; perPod > 1740 { // 8 700 decoded, 4 700 as JSON
		t.Errorf("%d bytes for each pod", perPod)
	}
}

func TestAnUndecodableObjectIsReportedWhenItArrives(t *testing.T) {
	list := []byte(
		`{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a","resourceVersion":"1"},"spec":7},{"metadata":{"name":"b","resourceVersion":"2"}}]}`)
	pods := synced(t, informer.Encode(informer.From("pods", canned(list, nil), informer.JSON[*corev1.Pod]())))
	if s := pods.Status(); s.Undecodable != 1 || s.Objects != 1 {
		t.Errorf("status %+v", s)
	}
}
