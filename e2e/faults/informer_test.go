package faults_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/informer"
)

// parameters are those without which an action is refused, or would do nothing here.
func parameters() map[string]string {
	return map[string]string{
		"delay": ",for=20ms,event=5ms", "throttle": ",bytesPerSecond=4000", "restart": ",for=100ms", "cut": ",frames=1", "silence": ",frames=1",
	}
}

// TestInformerConvergesUnderEachAction: while a rule is in force, or at the latest when it is
// removed, an informer has the server's state.
func TestInformerConvergesUnderEachAction(t *testing.T) {
	for _, k := range fault.Kinds() {
		if k.Name == "definition" || k.Name == "conflict" { // nothing that an informer of built-in kinds would meet
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			s := launch(t)
			of := configMaps(t, s)
			r, err := fault.ParseShort(k.Name + ",resources=configmaps,count=3" + parameters()[k.Name])
			if err != nil {
				t.Fatal(err)
			}
			if err := s.faults.Add(r); err != nil {
				t.Fatal(err)
			}
			source := informer.For[*corev1.ConfigMap](s.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps"), informer.Namespace(of.Namespace))
			inf := informer.New(source)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- inf.Run(ctx) }() // ends with ctx
			defer func() { cancel(); <-ended }()
			c := clientOf(t, s.RESTConfig(), http2)
			select { // until the fault has shown, or has nothing to act on
			case <-time.After(200 * time.Millisecond):
			case <-t.Context().Done():
			}
			s.faults.Clear()
			add(t, c, of, "late")
			if k.Name == "undecodable" { // nothing else tells the client what it could not read
				put := client.Request{Method: http.MethodPut, Path: of.Path() + "/a", Body: []byte(`{"metadata":{"name":"a","labels":{"x":"y"}}}`)}
				if err := do(t, c, put); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the informer has what was added after the removal", func() bool {
				_, late := inf.Get(informer.Key{Namespace: of.Namespace, Name: "late"})
				_, first := inf.Get(informer.Key{Namespace: of.Namespace, Name: "a"})
				return late && first
			})
		})
	}
}
