// Command configsync copies a ConfigMap into other namespaces, as ConfigCopy objects
// ask for (crd.yaml), and keeps the copies equal to the source.
//
// A source is a ConfigMap. A copy of it is created, updated and deleted here, and has a label.
// A configCopy says which source goes where.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/informer"
)

// control keeps copies until ctx ends.
func control(ctx context.Context, cfg *rest.Config, log *slog.Logger) error {
	gvr := schema.GroupVersionResource{Group: "examples.gapless.io", Version: "v1", Resource: "configcopies"}
	custom, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	typed := rest.CopyConfig(cfg)
	typed.APIPath, typed.GroupVersion, typed.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion,
		scheme.Codecs.WithoutConversion()
	core, err := rest.RESTClientFor(typed)
	if err != nil {
		return err
	}
	c := &controller{core: core, custom: custom.Resource(gvr)}
	c.maps = informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")),
		informer.Logger(log))
	c.byLabel = informer.NewIndex1(c.maps, "label", func(m *corev1.ConfigMap) string { return m.Labels[label] })
	c.orders = informer.New(informer.For[*configCopy](cfg, gvr), informer.Logger(log))
	c.wire()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.maps.Run(ctx) })
	g.Go(func() error { return c.orders.Run(ctx) })
	return g.Wait()
}

// wire connects the informers: a ConfigCopy is reconciled when it, its source or one
// of its copies changes.
func (c *controller) wire() {
	bySource := informer.NewIndex1(c.orders, "source", func(o *configCopy) source { return o.Spec.Source })
	todo := c.orders.Reconcile(c.reconcile, informer.Name("copies"), informer.Workers(4),
		informer.Retry(100*time.Millisecond, 2*time.Second, 0))
	c.maps.Handle(func(ctx context.Context, e informer.Event[*corev1.ConfigMap]) error {
		if err := c.orders.WaitSynced(ctx); err != nil {
			return err // before, nothing can be enqueued
		}
		for _, m := range []*corev1.ConfigMap{e.Old, e.New} { // Old has a label that was removed
			if m != nil && m.Labels[label] != "" {
				todo.Enqueue(informer.Key{Name: m.Labels[label]}) // also if it is deleted: then its copies must be
			}
		}
		for key := range bySource.Get(source(e.Key)) {
			todo.Enqueue(key)
		}
		return nil
	}, informer.Name("config maps"))
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "file; without one, the cluster that this runs in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err == nil {
		err = control(ctx, cfg, log)
	}
	if err != nil {
		log.ErrorContext(ctx, "configsync ends", slog.String("error", err.Error()))
		os.Exit(1)
	}
}
