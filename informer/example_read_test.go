package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// must is for examples, where nothing is to go wrong.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// cluster stands for an API server: one collection for each resource, in memory.
type cluster map[string]*listwatchtest.Server

func newCluster(resources ...string) cluster {
	c := cluster{}
	for _, resource := range resources {
		c[resource] = listwatchtest.New()
		c[resource].UID = listwatchtest.SpreadUID
		c[resource].Render = func(v listwatchtest.Version) []byte {
			o := v.Value.(runtime.Object).DeepCopyObject()
			m := must(meta.Accessor(o))
			m.SetNamespace(v.Key.Namespace)
			m.SetUID(v.UID)
			m.SetResourceVersion(fmt.Sprint(v.RV))
			return must(json.Marshal(o))
		}
	}
	return c
}

// config is how clients reach it.
func (c cluster) config() *rest.Config {
	return listwatchtest.Config(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, found := c[path.Base(r.URL.Path)]; found {
			s.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
}

// put creates or updates an object in the namespace "default", and returns the resource
// version.
func (c cluster) put(resource string, object runtime.Object) string {
	name := must(meta.Accessor(object)).GetName()
	return fmt.Sprint(c[resource].Put(name, object))
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
	api := newCluster("configmaps", "secrets")
	cfg := api.config()
	ctx := context.Background()
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer follow(maps)()

	rv := api.put("configmaps", settings("color", "web", "green"))
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
	api := newCluster("configmaps", "secrets")
	cfg := api.config()
	ctx := context.Background()
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer follow(maps)()

	api.put("configmaps", settings("job", "batch", "running"))
	go func() { api.put("configmaps", settings("job", "batch", "done")) }()
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
	api := newCluster("configmaps", "secrets")
	cfg := api.config()
	ctx := context.Background()
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	type place struct{ app, value string }
	byPlace := informer.NewIndex1(maps, "place", func(o *corev1.ConfigMap) place {
		return place{o.Labels["app"], o.Data["value"]}
	})
	defer follow(maps)()

	api.put("configmaps", settings("a", "web", "green"))
	api.put("configmaps", settings("b", "db", "green"))
	last := api.put("configmaps", settings("c", "web", "green"))
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
	api := newCluster("configmaps", "secrets")
	cfg := api.config()
	ctx := context.Background()
	api.put("configmaps", settings("a", "web", "green"))
	api.put("configmaps", settings("b", "db", "green"))
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer follow(maps)()

	before := maps.Snapshot()
	api["configmaps"].Delete("b")
	api.put("configmaps", settings("a", "web", "blue"))
	last := api.put("configmaps", settings("c", "web", "red"))
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
	api := newCluster("configmaps", "secrets")
	cfg := api.config()
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
	api.put("configmaps", settings("shop", "web", "green"))
	defer follow(maps)()
	defer follow(secrets)()
	for n := 1; n <= 2; n++ {
		api.put("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("key-", n), Labels: map[string]string{"owner": "shop"},
		}})
	}
	<-done
	// Output:
	// default/shop has 2 secrets
}
