package clientgo

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestInformersKeepServerStateUnderFailures(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	p := harness.NewProxy(t, s)
	direct, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	web, err := rest.HTTPClientFor(direct)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	defineWidgets(t, web, s.URL)
	harness.UnderFailures(t, s, p, web, configMaps(t, "client-go 0.37 typed", "default", through(direct, p)),
		configMaps(t, "client-go 0.37 typed, protobuf only", "kube-public", inProtobuf(through(direct, p))),
		widgets(t, through(direct, p)))
}

// through is the configuration of a client behind the proxy.
func through(direct *rest.Config, p *harness.Proxy) *rest.Config {
	cfg := rest.CopyConfig(direct)
	cfg.Host = p.URL()
	return cfg
}

// inProtobuf makes a client take nothing but protobuf.
func inProtobuf(cfg *rest.Config) *rest.Config {
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	return cfg
}

func configMaps(t *testing.T, name, namespace string, cfg *rest.Config) *harness.Informer {
	t.Helper()
	counter := &harness.Counter{Path: "/configmaps"}
	cfg.Wrap(counter.Wrap)
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	inf := underTest(t, name, counter, factory.Core().V1().ConfigMaps().Informer())
	inf.Path, inf.Object = "/api/v1/namespaces/"+namespace+"/configmaps", harness.ConfigMap
	return inf
}

func widgets(t *testing.T, cfg *rest.Config) *harness.Informer {
	t.Helper()
	counter := &harness.Counter{Path: "/widgets"}
	cfg.Wrap(counter.Wrap)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "default", nil)
	resource := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
	inf := underTest(t, "client-go 0.37 dynamic", counter, factory.ForResource(resource).Informer())
	inf.Path = "/apis/example.org/v1/namespaces/default/widgets"
	inf.Object = func(name string, n int) map[string]any {
		return map[string]any{
			"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"size": n},
		}
	}
	return inf
}

// underTest lets a witness watch an informer.
func underTest(t *testing.T, name string, counter *harness.Counter, informer cache.SharedIndexInformer) *harness.Informer {
	t.Helper()
	w := harness.NewWitness()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.Added(version(o)) },
		UpdateFunc: func(before, after any) {
			_, from := version(before)
			key, to := version(after)
			w.Updated(key, from, to)
		},
		DeleteFunc: func(o any) { w.Deleted(version(o)) },
	}); err != nil {
		t.Fatalf("add a handler: %v", err)
	}
	return &harness.Informer{
		Name: name, Counter: counter, Witness: w,
		Run: func(ctx context.Context) { informer.Run(ctx.Done()) },
		Store: func() map[string]string {
			state := map[string]string{}
			for _, o := range informer.GetStore().List() {
				key, rv := version(o)
				state[key] = rv
			}
			return state
		},
	}
}

func version(o any) (key, rv string) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	m, ok := o.(metav1.Object)
	if !ok {
		return fmt.Sprintf("%T", o), "none"
	}
	return m.GetNamespace() + "/" + m.GetName(), m.GetResourceVersion()
}

// defineWidgets creates a CustomResourceDefinition, and waits until it is served.
func defineWidgets(t *testing.T, web *http.Client, url string) {
	t.Helper()
	const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
		`"metadata":{"name":"widgets.example.org"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`
	send := func(method, path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(req)
		if err != nil {
			t.Fatalf("do web: %v", err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if status := send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		definition); status != http.StatusCreated {
		t.Fatalf("create the definition: %d", status)
	}
	harness.Eventually(t, "widgets are served", func() bool {
		return send(http.MethodGet, "/apis/example.org/v1/widgets", "") == http.StatusOK
	})
}
