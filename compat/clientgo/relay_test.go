package clientgo

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestInformersBehindARelayListOnce: neither a failure of the API server nor one of the relay
// makes them list again.
func TestInformersBehindARelayListOnce(t *testing.T) {
	t.Parallel()
	b := harness.StartRelayed(t)
	defineWidgets(t, b.Direct.Client(t), b.Server.URL)
	b.Relay.Mirror(t, b.Admin.Client(t), "/apis/example.org/v1/widgets", "widgets.v1.example.org")
	relayed, err := clientcmd.BuildConfigFromFlags("", b.Relay.Kubeconfig(t, b.Server.Kubeconfig, b.Clients.URL()))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	all := []*harness.Informer{
		configMaps(t, "client-go 0.37 typed", "default", rest.CopyConfig(relayed)),
		configMaps(t, "client-go 0.37 typed, protobuf only", "kube-public", inProtobuf(rest.CopyConfig(relayed))),
		widgets(t, rest.CopyConfig(relayed)),
	}
	for _, inf := range all {
		inf.MaxLists = 1
	}
	b.UnderFailures(t, all...)
}

// TestInformersBehindARelayResumeOverARestart: kube-apiserver forgets its window of changes.
func TestInformersBehindARelayResumeOverARestart(t *testing.T) {
	t.Parallel()
	s := harness.StartSides(t)
	informer := func(name string, side *harness.Side) *harness.Informer {
		cfg, err := clientcmd.BuildConfigFromFlags("", side.Client.WriteKubeconfig(t, side.Proxy.URL()))
		if err != nil {
			t.Fatalf("read the kubeconfig: %v", err)
		}
		return configMaps(t, name, "default", cfg)
	}
	s.Restart(t, informer("client-go, direct", s.Direct), informer("client-go, relayed", s.Relayed))
}

// TestReadersBehindARelayAreNeverStaleAfterARestore: kube-apiserver is started again over an older copy of
// etcd's directory, and says nothing about it.
func TestReadersBehindARelayAreNeverStaleAfterARestore(t *testing.T) {
	t.Parallel()
	s := harness.StartSides(t)
	defineWidgets(t, s.Cluster.Admin.Client(t), s.Cluster.URL)
	s.Relay.Mirror(t, s.Relayed.Client.Client(t), "/apis/example.org/v1/widgets", "widgets.v1.example.org")
	relayed, err := clientcmd.BuildConfigFromFlags("", s.Relayed.Client.WriteKubeconfig(t, s.Relayed.Proxy.URL()))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	s.Restored(t, configMaps(t, "client-go 0.37 typed", "default", rest.CopyConfig(relayed)),
		widgets(t, rest.CopyConfig(relayed)))
}
