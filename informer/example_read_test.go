package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
)

// must is for examples, where nothing is to go wrong.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// cluster is an API server for an example, in memory.
func cluster() (cfg *rest.Config, stop func()) {
	server := must(gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0"}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	<-server.Ready()
	return server.RESTConfig(), func() {
		cancel()
		must(0, <-ended)
	}
}

// writer writes into the namespace "default".
type writer struct{ *rest.RESTClient }

func writerOf(cfg *rest.Config) writer {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	return writer{must(rest.RESTClientFor(cfg))}
}

// create and update return the resource version of the write.
func (w writer) create(resource string, object runtime.Object) string {
	return written(w.Post().Namespace("default").Resource(resource).Body(object))
}

func (w writer) update(resource, name string, object runtime.Object) string {
	return written(w.Put().Namespace("default").Resource(resource).Name(name).Body(object))
}

func (w writer) remove(resource, name string) {
	must(w.Delete().Namespace("default").Resource(resource).Name(name).Do(context.Background()).Raw())
}

// written is the resource version that a write returned.
func written(r *rest.Request) string {
	var answer metav1.PartialObjectMetadata
	must(0, json.Unmarshal(must(r.Do(context.Background()).Raw()), &answer))
	return answer.ResourceVersion
}

// follow runs an informer until stop is called.
func follow[T informer.Object](i *informer.Informer[T]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	must(0, i.WaitSynced(ctx))
	return func() {
		cancel()
		must(0, <-ended)
	}
}

func settings(name, app, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Data:       map[string]string{"value": value},
	}
}

// After a write, WaitRevision makes sure that one reads it.
func ExampleInformer_WaitRevision() {
	cfg, shutdown := cluster()
	defer shutdown()
	ctx := context.Background()
	writes := writerOf(cfg)
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer follow(maps)()

	rv := writes.create("configmaps", settings("color", "web", "green"))
	if err := maps.WaitRevision(ctx, rv); err != nil {
		fmt.Println(err)
		return
	}
	mine, found := maps.Get(informer.Key{Namespace: "default", Name: "color"})
	fmt.Println(found, mine.Data["value"])
	// Output:
	// true green
}

// Until waits for a condition without a handler.
func ExampleInformer_Until() {
	cfg, shutdown := cluster()
	defer shutdown()
	ctx := context.Background()
	writes := writerOf(cfg)
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer follow(maps)()

	writes.create("configmaps", settings("job", "batch", "running"))
	go func() { writes.update("configmaps", "job", settings("job", "batch", "done")) }()
	job, err := maps.Until(ctx, informer.Key{Namespace: "default", Name: "job"},
		func(o *corev1.ConfigMap, found bool) bool { return found && o.Data["value"] == "done" })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Name, job.Data["value"])
	// Output:
	// job done
}

// An index finds objects by any comparable value. It is part of the cache's state,
// so that At reads both at one moment.
func ExampleNewIndex1() {
	cfg, shutdown := cluster()
	defer shutdown()
	ctx := context.Background()
	writes := writerOf(cfg)
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	type place struct{ app, value string }
	byPlace := informer.NewIndex1(maps, "place", func(o *corev1.ConfigMap) place {
		return place{o.Labels["app"], o.Data["value"]}
	})
	defer follow(maps)()

	writes.create("configmaps", settings("a", "web", "green"))
	writes.create("configmaps", settings("b", "db", "green"))
	last := writes.create("configmaps", settings("c", "web", "green"))
	must(0, maps.WaitRevision(ctx, last))
	for key := range byPlace.Get(place{"web", "green"}) {
		fmt.Println(key)
	}
	now := maps.Snapshot()
	fmt.Println(byPlace.At(now).Len(place{"db", "green"}), "of", now.Len())
	// Output:
	// default/a
	// default/c
	// 1 of 3
}

// Two states can be held, read and compared, whatever happens meanwhile.
func ExampleSnapshot_Diff() {
	cfg, shutdown := cluster()
	defer shutdown()
	ctx := context.Background()
	writes := writerOf(cfg)
	writes.create("configmaps", settings("a", "web", "green"))
	writes.create("configmaps", settings("b", "db", "green"))
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer follow(maps)()

	before := maps.Snapshot()
	writes.remove("configmaps", "b")
	writes.update("configmaps", "a", settings("a", "web", "blue"))
	last := writes.create("configmaps", settings("c", "web", "red"))
	must(0, maps.WaitRevision(ctx, last))
	for e := range maps.Snapshot().Diff(before) {
		fmt.Println(e.Type, e.Key)
	}
	for key, o := range before.Select(labels.SelectorFromSet(labels.Set{"app": "db"})) {
		fmt.Println("before:", key, o.Data["value"])
	}
	// Output:
	// Modified default/a
	// Deleted default/b
	// Added default/c
	// before: default/b green
}

// A reconciler over two collections: each config map is handled with the secrets
// that say, by a label, that they belong to it, and again when one of those changes.
func ExampleIndex() {
	cfg, shutdown := cluster()
	defer shutdown()
	writes := writerOf(cfg)
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	secrets := informer.New(informer.For[*corev1.Secret](cfg, corev1.SchemeGroupVersion.WithResource("secrets")))
	byOwner := informer.NewIndex1(secrets, "owner", func(s *corev1.Secret) string { return s.Labels["owner"] })
	var complete sync.Once
	done := make(chan struct{})
	owners := maps.Reconcile(func(_ context.Context, key informer.Key) error {
		if n := byOwner.Len(key.Name); n == 2 {
			complete.Do(func() {
				fmt.Println(key, "has", n, "secrets")
				close(done)
			})
		}
		return nil
	})
	secrets.Handle(func(_ context.Context, e informer.Event[*corev1.Secret]) error {
		owners.Enqueue(informer.Key{Namespace: e.Key.Namespace, Name: e.Object().Labels["owner"]})
		return nil
	})
	writes.create("configmaps", settings("shop", "web", "green"))
	defer follow(maps)()
	defer follow(secrets)()
	for n := 1; n <= 2; n++ {
		writes.create("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("key-", n), Labels: map[string]string{"owner": "shop"},
		}})
	}
	<-done
	// Output:
	// default/shop has 2 secrets
}
