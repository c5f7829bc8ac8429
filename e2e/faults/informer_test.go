package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/informer"
)

// parameters are those without which an action is refused, or would do nothing here.
func parameters() map[string]string {
	return map[string]string{
		"delay": ",for=20ms,event=5ms", "throttle": ",bytesPerSecond=4000", "restart": ",for=100ms", "cut": ",frames=1",
		"silence": ",frames=1",
	}
}

// TestInformersConvergeUnderEachAction: while a rule is in force, or at the latest when it is
// removed, the informer has the server's state. compat/clientgo has the same for client-go's.
func TestInformersConvergeUnderEachAction(t *testing.T) {
	for _, k := range fault.Kinds() {
		switch k.Name {
		case "definition", "conflict", "store-write": // nothing that an informer of built-in kinds would meet
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			converges(t, k)
		})
	}
}

func converges(t *testing.T, k fault.Kind) {
	t.Helper()
	s := launch(t)
	of := configMaps(t, s)
	r, err := fault.ParseShort(k.Name + ",resources=configmaps,count=3" + parameters()[k.Name])
	if err != nil {
		t.Fatalf("parse the rule: %v", err)
	}
	if err := s.faults.Add(r); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	has := cacheOf(t, s.RESTConfig(), of.Namespace)
	c := clientOf(t, s.RESTConfig(), http2)
	select { // until the fault has shown, or has nothing to act on
	case <-time.After(200 * time.Millisecond):
	case <-t.Context().Done():
	}
	s.faults.Clear()
	add(t, c, of, "late")
	if k.Name == "undecodable" { // nothing else tells the client what it could not read
		for _, name := range []string{"a", "b"} {
			label(t, c, of, name, "again")
		}
	}
	eventually(t, "the informer has what was added after the removal", func() bool { return has("late") && has("a") && has("b") })
}

// cacheOf starts an informer, and returns whether it has an object.
func cacheOf(t *testing.T, cfg *rest.Config, namespace string) func(name string) bool {
	t.Helper()
	inf := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps"),
		informer.Namespace(namespace)))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	})
	return func(name string) bool {
		_, found := inf.Get(informer.Key{Namespace: namespace, Name: name})
		return found
	}
}
