package clientgo

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestWritesSucceedOnceBehindAnAPIServerThatSendsClientsAway: managed clusters set --goaway-chance.
func TestWritesSucceedOnceBehindAnAPIServerThatSendsClientsAway(t *testing.T) {
	harness.WritesUnderGoAway(t, map[string]harness.Writing{"client-go": write})
}

// write is a harness.Writing. The client repeats what is answered with Retry-After, or what the server
// did not take; which the harness sees if it was carried out.
func write(ctx context.Context, kubeconfig, namespace string, count int) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1 // no pauses
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	maps := clients.CoreV1().ConfigMaps(namespace)
	errs := make(chan error, count)
	places := make(chan struct{}, 16)
	for range count {
		places <- struct{}{}
		go func() { // it ends with its two requests, for which this call waits
			defer func() { <-places }()
			o, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}},
				metav1.CreateOptions{})
			if err == nil {
				o.Data = map[string]string{"updated": "true"}
				_, err = maps.Update(ctx, o, metav1.UpdateOptions{})
			}
			errs <- err
		}()
	}
	var failed error
	for range count {
		if err := <-errs; err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}
