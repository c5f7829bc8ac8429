package clientgo_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer/clientgo"
)

// A program with generated factories and listers is not changed but for this: what
// makes the informer is said before it is asked for.
func Example() {
	server := newFakeServer() // stands for an API server
	server.put("a", "1")
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fakeServer", Transport: server, QPS: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.InformerFor(&corev1.ConfigMap{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.New(listWatch(c), &corev1.ConfigMap{}, resync, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		})
	})

	maps := factory.Core().V1().ConfigMaps() // from here on as ever
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	one, err := maps.Lister().ConfigMaps("ns").Get("a")
	fmt.Println(one.Data["value"], err)
	cancel()
	factory.Shutdown()
	// Output:
	// 1 <nil>
}
