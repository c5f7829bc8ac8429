package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

// exampleServer has one pod, which starts to run.
func exampleServer() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(rw,
			`{"type":"ADDED","object":{"metadata":{"name":"web","namespace":"prod","uid":"1","resourceVersion":"5"},"status":{"phase":"Pending"}}}`)
		fmt.Fprintln(rw,
			`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-r.Context().Done():
		}
		fmt.Fprintln(rw,
			`{"type":"MODIFIED","object":{"metadata":{"name":"web","namespace":"prod","uid":"1","resourceVersion":"6"},"status":{"phase":"Running"}}}`)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}))
}

func Example() {
	server := exampleServer()
	defer server.Close()
	cfg := &rest.Config{Host: server.URL} // in real life: rest.InClusterConfig, or clientcmd

	pods := informer.New(informer.For[*corev1.Pod](cfg, corev1.SchemeGroupVersion.WithResource("pods")))
	ctx, cancel := context.WithCancel(context.Background())
	pods.Handle(func(_ context.Context, e informer.Event[*corev1.Pod]) error {
		fmt.Println(e.Type, e.Key, e.Object().Status.Phase, "initial:", e.Initial)
		if e.Object().Status.Phase == corev1.PodRunning {
			cancel()
		}
		return nil
	})
	if err := pods.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Added prod/web Pending initial: true
	// Modified prod/web Running initial: false
}

// A handler that returns an error is called again for that key, with the newest
// state, while other keys go on.
func ExampleInformer_Handle() {
	server := exampleServer()
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}

	pods := informer.New(informer.For[*corev1.Pod](cfg, corev1.SchemeGroupVersion.WithResource("pods")))
	ctx, cancel := context.WithCancel(context.Background())
	pods.Handle(func(_ context.Context, e informer.Event[*corev1.Pod]) error {
		if e.New.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%s is not ready", e.Key)
		}
		fmt.Println(e.Type, e.Key, e.New.Status.Phase, "after", e.Attempt, "failure")
		cancel()
		return nil
	}, informer.Name("waiter"), informer.Workers(4), informer.Retry(time.Hour, time.Hour, 0))
	if err := pods.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Added prod/web Running after 1 failure
}

// A type of your own decodes only what it has.
func ExampleFor() {
	server := exampleServer()
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}

	type slimPod struct {
		thing  // stands for any struct with a metav1.ObjectMeta
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	pods := informer.New(informer.For[*slimPod](cfg, corev1.SchemeGroupVersion.WithResource("pods")))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	for key, pod := range pods.All() {
		fmt.Println(key, pod.Status.Phase)
	}
	cancel()
	if err := <-done; err != nil {
		fmt.Println(err)
	}
	// Output:
	// prod/web Pending
}
