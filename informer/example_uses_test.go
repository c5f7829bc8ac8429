package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

func onNode(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// Pods by their nodes, and a handler that is called again after an error: all that it
// takes is in job.
func ExampleNew() {
	api := newCluster("pods")
	cfg := api.config()
	for _, name := range []string{"a", "b", "c"} {
		api.put("pods", onNode(name, "small"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	drain := func(_ context.Context, p *corev1.Pod) error {
		cancel()
		fmt.Println("too many pods on", p.Spec.NodeName)
		return nil
	}

	job := func() error {
		pods := informer.New(informer.Builtin[*corev1.Pod](cfg, informer.StripManagedFields()))
		byNode := informer.NewIndex1(pods, "node", func(p *corev1.Pod) string { return p.Spec.NodeName })
		pods.Handle(func(ctx context.Context, e informer.Event[*corev1.Pod]) error {
			if e.Key.Name == "c" && byNode.Len(e.Object().Spec.NodeName) > 2 {
				return drain(ctx, e.Object())
			}
			return nil
		}, informer.Name("drainer"), informer.Workers(4))
		return pods.Run(ctx)
	}
	fmt.Println(job())
	// Output:
	// too many pods on small
	// <nil>
}

// Two agents share the work: each has about a half of the pods, and of them only what
// it needs. informer.Persist(dir) would let them go on where they stopped.
func ExampleShard() {
	api := newCluster("pods")
	cfg := api.config()
	last := ""
	for n := range 20 {
		last = api.put("pods", onNode(fmt.Sprint("pod-", n), "worker"))
	}
	type slimPod struct {
		thing // stands for any struct with a metav1.ObjectMeta
		Spec  struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	podGVR := corev1.SchemeGroupVersion.WithResource("pods")
	seen := map[string]int{}
	for index := range 2 {
		pods := informer.New(informer.For[*slimPod](cfg, podGVR, informer.Shard(index, 2)))
		stop := follow(pods)
		must(0, pods.WaitRevision(context.Background(), last))
		fmt.Println("some, not all:", pods.Len() > 0 && pods.Len() < 20)
		for key, p := range pods.All() {
			if p.Spec.NodeName == "worker" {
				seen[key.Name]++
			}
		}
		stop()
	}
	twice := 0
	for _, times := range seen {
		twice += times - 1
	}
	fmt.Println(len(seen), "pods,", twice, "of them twice")
	// Output:
	// some, not all: true
	// some, not all: true
	// 20 pods, 0 of them twice
}

// A handler that hears of one field only.
func ExampleChanged() {
	l := newDemo()
	l.create("a", "1")
	reg := l.maps.Handle(show, informer.SkipInitial(),
		informer.Changed(func(m *corev1.ConfigMap) string { return m.Data["value"] }))
	stop := l.run()
	defer stop()
	l.settle(reg)
	l.put(settings("a", "another field", "1"))
	l.settle(reg)
	l.update("a", "2")
	l.settle(reg)
	// Output:
	// Modified a=2, was 1
}

// A program that is not allowed to read, or asks for what there is not, can end at the
// start instead of waiting for somebody to mend it.
func ExampleStop4xx() {
	api := listwatchtest.New()
	cfg := listwatchtest.Config(api)
	api.Fail(listwatchtest.Faults(listwatchtest.Fault{Status: 401}, listwatchtest.Fault{Status: 404}))
	pods := informer.New(informer.Builtin[*corev1.Pod](cfg), informer.Stop4xx())
	fmt.Println("denied:", kube.Classify(pods.Run(context.Background())))

	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	gadgets := informer.New(informer.Dynamic(cfg, gvr), informer.Stop4xx())
	fmt.Println("not there:", kube.Classify(gadgets.Run(context.Background())))
	// Output:
	// denied: unauthorized
	// not there: not_found
}
