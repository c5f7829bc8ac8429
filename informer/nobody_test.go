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

// narrowPod has the fields of a pod that somebody needs, of its metadata too.
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

// NarrowMeta is exported because decoders leave other embedded fields alone.
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

// TestAStructWithAFewFieldsCostsAFewFields: what is not in it takes no memory.
func TestAStructWithAFewFieldsCostsAFewFields(t *testing.T) {
	const n = 2000
	cost := func(sync func(canned) any) int64 {
		backend := cannedPods(n)
		before := heap()
		i := sync(backend)
		held := int64(heap()) - int64(before)
		runtime.KeepAlive(i)
		runtime.KeepAlive(backend)
		return held / n
	}
	slim := cost(func(c canned) any {
		pods := synced(t, informer.From("pods", c, informer.JSON[*narrowPod]()))
		for _, p := range pods.All() {
			if !strings.HasPrefix(p.Spec.NodeName, "node-") || p.Status.Phase != "Running" || p.Status.PodIP == "" || p.Labels["team"] != "core" {
				t.Fatalf("pod %+v", p)
			}
		}
		return pods
	})
	whole := cost(func(c canned) any { return synced(t, informer.From("pods", c, informer.JSON[*corev1.Pod]())) })
	t.Logf("a pod is %d bytes of %d", slim, whole)
	if slim > 1000 || slim > whole/4 {
		t.Errorf("a pod with eight fields is %d bytes, a whole one %d", slim, whole)
	}
}

// TestANamespaceThatMayNoLongerBeReadKeepsNobodyElseFromBeingCurrent: the others are
// followed, what is known of it stays, and the incident names it.
func TestANamespaceThatMayNoLongerBeReadKeepsNobodyElseFromBeingCurrent(t *testing.T) {
	open, closed := newWorld(), newWorld()
	open.put("mine", 1)
	closed.put("theirs", 1)
	closed.fail(func(r request) fault {
		if r.initial {
			return fault{end: "cut", after: 2}
		}
		return fault{status: http.StatusForbidden, reason: "Forbidden"}
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
		t.Fatal(err)
	}
	if in := <-denied; in.Key.Namespace != "closed" {
		t.Errorf("incident %s", in)
	}
	open.put("mine", 2)
	if _, err := things.Until(ctx, key("mine"), func(o *thing, found bool) bool { return found && o.Value == 2 }); err != nil {
		t.Error(err)
	}
	if o, found := things.Get(key("theirs")); !found || o.Value != 1 {
		t.Errorf("what was known is %v", o)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
