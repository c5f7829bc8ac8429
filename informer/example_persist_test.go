package informer_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

// The second program begins with what the first one knew, although there is no server
// any more.
func ExamplePersist() {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server := exampleServer()
	cfg := &rest.Config{Host: server.URL}

	program := func(then func(pods *informer.Informer[*corev1.Pod])) {
		pods := informer.New(informer.Builtin[*corev1.Pod](cfg), informer.Persist(dir, informer.PersistTag("1")))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- pods.Run(ctx) }()
		web := informer.Key{Namespace: "prod", Name: "web"}
		_, err := pods.Until(ctx, web, func(p *corev1.Pod, found bool) bool {
			return found && p.Status.Phase == corev1.PodRunning
		})
		if err == nil {
			then(pods)
		}
		cancel()
		fmt.Println("ended:", <-done)
	}
	program(func(pods *informer.Informer[*corev1.Pod]) {
		fmt.Println("at", pods.ResourceVersion(), "after", pods.Status().Lists, "list")
	})
	server.CloseClientConnections()
	server.Close()
	program(func(pods *informer.Informer[*corev1.Pod]) {
		fmt.Println("at", pods.ResourceVersion(), "after", pods.Status().Lists, "lists, server heard:",
			!pods.Status().LastContact.IsZero())
	})
	// Output:
	// at 6 after 1 list
	// ended: <nil>
	// at 6 after 0 lists, server heard: false
	// ended: <nil>
}
