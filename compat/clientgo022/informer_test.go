package clientgo022

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestInformersKeepServerStateUnderFailures(t *testing.T) {
	s := harness.Start(t)
	p := harness.NewProxy(t, s)
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatalf("transport for: %v", err)
	}
	web := &http.Client{Transport: transport}
	t.Cleanup(web.CloseIdleConnections)
	harness.UnderFailures(t, s, p, web, configMaps(t, cfg, p))
}

func configMaps(t *testing.T, direct *rest.Config, p *harness.Proxy) *harness.Informer {
	t.Helper()
	counter := &harness.Counter{Path: "/configmaps"}
	cfg := rest.CopyConfig(direct)
	cfg.Host = p.URL()
	cfg.Wrap(counter.Wrap)
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	w := harness.NewWitness()
	informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.Added(version(o)) },
		UpdateFunc: func(before, after any) {
			_, from := version(before)
			key, to := version(after)
			w.Updated(key, from, to)
		},
		DeleteFunc: func(o any) { w.Deleted(version(o)) },
	})
	return &harness.Informer{
		Name: "client-go 0.22 typed", Counter: counter, Witness: w, Slow: true,
		Path: "/api/v1/namespaces/default/configmaps", Object: harness.ConfigMap,
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
