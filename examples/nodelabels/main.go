// Command nodelabels labels each node with the number of its pods that are not
// finished: gapless.io/pods=3.
//
// A pod counts for the node that it runs on, until it is finished. A label with a wrong value
// is written again.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/informer"
)

const label = "gapless.io/pods"

// pod has the fields of a Pod that are needed; no others are kept.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

func (p *pod) node() string { return p.Spec.NodeName }

// control labels nodes until ctx ends.
func control(ctx context.Context, cfg *rest.Config, log *slog.Logger) error {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	podGVR, nodeGVR := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("nodes")
	counted := fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	pods := informer.New(informer.For[*pod](cfg, podGVR, informer.Fields(counted)), informer.Logger(log))
	byNode := informer.NewIndex1(pods, "node", (*pod).node)
	nodes := informer.New(informer.For[*metav1.PartialObjectMetadata](cfg, nodeGVR), informer.Logger(log))
	labels := nodes.Reconcile(func(ctx context.Context, key informer.Key) error {
		node, found := nodes.Get(key)
		want := strconv.Itoa(byNode.Len(key.Name))
		if !found || node.Labels[label] == want {
			return nil
		}
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{%q:%q}}}`, node.ResourceVersion, label, want)
		written, err := client.Resource(nodeGVR).Patch(ctx, key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err // a conflict too: this node is retried with its newest state
		}
		return nodes.WaitRevision(ctx, written.ResourceVersion) // so that the next call sees the label
	}, informer.Workers(4), informer.Changed(func(n *metav1.PartialObjectMetadata) string { return n.Labels[label] }))
	pods.Handle(func(_ context.Context, e informer.Event[*pod]) error {
		labels.Enqueue(informer.Key{Name: e.Object().node()})
		return nil
	}, informer.SkipInitial(), informer.Changed((*pod).node)) // a pod never moves to another node
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return pods.Run(ctx) })
	if pods.WaitSynced(ctx) == nil { // so that no node is labelled before all pods are known
		g.Go(func() error { return nodes.Run(ctx) })
	}
	return g.Wait()
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
		log.ErrorContext(ctx, "nodelabels ends", slog.String("error", err.Error()))
		os.Exit(1)
	}
}
