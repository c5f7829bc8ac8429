package informer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

// narrowPod has a few fields of a pod and its metadata.
type narrowPod struct {
	NarrowMeta `json:"metadata"`
	Spec       struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

// NarrowMeta is exported because decoders ignore embedded structs of unexported types.
type NarrowMeta struct {
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
}

func (m *NarrowMeta) GetNamespace() string         { return m.Namespace }
func (m *NarrowMeta) GetName() string              { return m.Name }
func (m *NarrowMeta) GetUID() types.UID            { return m.UID }
func (m *NarrowMeta) GetResourceVersion() string   { return m.ResourceVersion }
func (m *NarrowMeta) GetLabels() map[string]string { return m.Labels }

// TestFieldsThatTheTypeLacksTakeNoMemory compares a type of eight fields with a whole pod.
func TestFieldsThatTheTypeLacksTakeNoMemory(t *testing.T) {
	const n = 2000
	cost := func(sync func(informer.Backend) any) int64 {
		backend := cannedPods(n)
		before := heap()
		i := sync(backend)
		held := int64(heap()) - int64(before)
		runtime.KeepAlive(i)
		runtime.KeepAlive(backend)
		return held / n
	}
	slim := cost(func(c informer.Backend) any {
		pods := synced(t, informer.From("pods", c, informer.JSON[*narrowPod]()))
		for _, p := range pods.All() {
			if !strings.HasPrefix(p.Spec.NodeName, "node-") || p.Status.Phase != "Running" || p.Status.PodIP == "" ||
				p.Labels["team"] != "core" {
				t.Fatalf("pod %+v", p)
			}
		}
		return pods
	})
	whole := cost(func(c informer.Backend) any { return synced(t, informer.From("pods", c, informer.JSON[*corev1.Pod]())) })
	t.Logf("a pod is %d bytes of %d", slim, whole)
	if slim > 1000 || slim > whole/4 {
		t.Errorf("a pod with eight fields is %d bytes, a whole one %d", slim, whole)
	}
}

// TestAForbiddenNamespaceDoesNotDelayTheOthers: the informer follows the others, keeps the
// objects of the forbidden one, and names it in the incident.
func TestAForbiddenNamespaceDoesNotDelayTheOthers(t *testing.T) {
	open, closed := newServer(), newServer()
	mine, theirs := informer.Key{Namespace: "open", Name: "mine"}, informer.Key{Namespace: "closed", Name: "theirs"}
	open.PutKey(mine, 1)
	closed.PutKey(theirs, 1)
	closed.Fail(func(r request) fault {
		if r.Initial {
			return fault{End: "cut", After: 2}
		}
		return fault{Status: http.StatusForbidden, Reason: "Forbidden"}
	})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/namespaces/closed/") {
			closed.ServeHTTP(rw, r)
			return
		}
		open.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	defer srv.CloseClientConnections()
	denied := make(chan informer.Incident, 64)
	things := informer.New(informer.For[*thing](&rest.Config{Host: srv.URL}, thingsGVR(), informer.Namespaces("open", "closed")),
		informer.OnError(func(in informer.Incident) {
			if in.Kind == informer.Denied {
				select {
				case denied <- in:
				default: // the first are enough
				}
			}
		}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- things.Run(ctx) }()
	if err := things.WaitSynced(ctx); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	if in := <-denied; in.Key.Namespace != "closed" {
		t.Errorf("incident %s", in)
	}
	open.PutKey(mine, 2)
	if _, err := things.Until(ctx, mine, func(o *thing, found bool) bool { return found && o.Value == 2 }); err != nil {
		t.Errorf("wait for the condition: %v", err)
	}
	if o, found := things.Get(theirs); !found || o.Value != 1 {
		t.Errorf("what was known is %v", o)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}
