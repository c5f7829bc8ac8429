package informer

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/informer"
)

func TestInformersKeepServerStateUnderFailures(t *testing.T) {
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
	harness.UnderFailures(t, s, p, web, configMaps(t, direct, p))
}

func configMaps(t *testing.T, direct *rest.Config, p *harness.Proxy) *harness.Informer {
	t.Helper()
	counter := &harness.Counter{Path: "/configmaps"}
	cfg := rest.CopyConfig(direct)
	cfg.Host = p.URL()
	cfg.Wrap(counter.Wrap)
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	inf := informer.New(informer.For[*corev1.ConfigMap](cfg, resource, informer.Namespace("default")),
		informer.OnError(func(i informer.Incident) { t.Logf("incident: %s", i) }))
	w := harness.NewWitness()
	inf.Handle(func(_ context.Context, e informer.Event[*corev1.ConfigMap]) error {
		key := e.Key.Namespace + "/" + e.Key.Name
		switch e.Type {
		case informer.Added:
			w.Added(key, e.New.ResourceVersion)
		case informer.Modified:
			w.Updated(key, e.Old.ResourceVersion, e.New.ResourceVersion)
		case informer.Deleted:
			rv := e.RV
			if e.Inferred { // the version of the deletion is unknown
				rv = e.Old.ResourceVersion
			}
			w.Deleted(key, rv)
		case informer.Resync:
			t.Errorf("%s was resynced, which nobody asked for", key)
		}
		return nil
	}, informer.Every(1000, informer.Block))
	return &harness.Informer{
		Name: "gapless", Counter: counter, Witness: w,
		MaxLists: 2, // at the beginning, and once the history that it needs was compacted
		Path:     "/api/v1/namespaces/default/configmaps", Object: harness.ConfigMap,
		Run: func(ctx context.Context) {
			if err := inf.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		},
		Store: func() map[string]string {
			state := map[string]string{}
			for key, o := range inf.All() {
				state[key.Namespace+"/"+key.Name] = o.ResourceVersion
			}
			return state
		},
	}
}
