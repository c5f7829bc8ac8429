// Program user-clientgo is a user of the replacement for client-go's informer: it waits for an
// object of a server that always answers the same, in a generated factory.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer/clientgo"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	server := httptest.NewServer(http.HandlerFunc(serve))
	defer server.Close()
	defer cancel()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.InformerFor(&corev1.ConfigMap{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		lw := &cache.ListWatch{
			ListFunc: func(o metav1.ListOptions) (runtime.Object, error) {
				return c.CoreV1().ConfigMaps("").List(ctx, o)
			},
			WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
				return c.CoreV1().ConfigMaps("").Watch(ctx, o)
			},
		}
		return clientgo.New(lw, &corev1.ConfigMap{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	object, err := lister.ConfigMaps("default").Get("one")
	if err != nil || object.Data["a"] != "b" {
		return fmt.Errorf("the cache has %v: %w", object, err)
	}
	fmt.Println("the cache has ConfigMap", object.Name)
	cancel()
	factory.Shutdown()
	return nil
}

// serve answers a LIST, refuses a streaming one, and keeps a watch open until the client ends it.
func serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.FormValue("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case r.FormValue("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"2"},"items":[`+
			`{"metadata":{"namespace":"default","name":"one","uid":"1","resourceVersion":"1"},"data":{"a":"b"}}]}`)
	}
}
