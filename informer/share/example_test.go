package share_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/informer/share"
)

// Two controllers that know nothing of each other have one watch and one cache. It
// ends with the second of them.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := listwatchtest.New() // stands for an API server
	server.PutKey(informer.Key{Name: "default"}, nil)
	cfg := listwatchtest.Config(server)

	pool := share.New(share.Config{})
	ran := make(chan error, 1)
	go func() { ran <- pool.Run(ctx) }()
	source := informer.For[*corev1.Namespace](cfg, corev1.SchemeGroupVersion.WithResource("namespaces"))
	controller := func(name string) *share.Lease[*corev1.Namespace] {
		lease, err := share.Get(pool, source)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		if err := lease.WaitSynced(ctx); err != nil {
			fmt.Println(err)
		}
		_, found := lease.Get(informer.Key{Name: "default"})
		fmt.Println(name, "sees the namespace:", found)
		return lease
	}
	first, second := controller("first"), controller("second")
	fmt.Println("lists:", second.Status().Lists)
	for _, lease := range []*share.Lease[*corev1.Namespace]{first, second} {
		if err := lease.Release(ctx); err != nil {
			fmt.Println(err)
		}
		fmt.Println("informers:", len(pool.Shared()))
	}
	cancel()
	fmt.Println(<-ran)
	// Output:
	// first sees the namespace: true
	// second sees the namespace: true
	// lists: 1
	// informers: 1
	// informers: 0
	// <nil>
}
