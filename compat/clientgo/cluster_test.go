package clientgo

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestInformersOfAnAggregatedServerListOnce: kube-apiserver passes the requests of a group on to a
// server with a history of its own.
func TestInformersOfAnAggregatedServerListOnce(t *testing.T) {
	t.Parallel()
	s, behind := harness.StartSides(t), harness.Start(t)
	defineWidgets(t, harness.Administrator(t, behind).Client(t), behind.URL)
	s.Aggregate(t, "example.org", "v1", behind)
	s.Relay.Mirror(t, s.Relayed.Client.Client(t), "/apis/example.org/v1/widgets", "widgets.v1.example.org")
	relayed, err := clientcmd.BuildConfigFromFlags("", s.Relayed.Client.WriteKubeconfig(t, s.Relay.URL))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	inf := widgets(t, relayed)
	inf.MaxLists = 1
	s.AggregatedUnderFailures(t, behind, inf)
}

// TestInformersMoveBetweenRelaysWithoutAList: the relays have mirrors of their own.
func TestInformersMoveBetweenRelaysWithoutAList(t *testing.T) {
	t.Parallel()
	s := harness.StartSides(t)
	second, client := s.Second(t)
	relayed, err := clientcmd.BuildConfigFromFlags("", client.WriteKubeconfig(t, s.Relayed.Proxy.URL()))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	informers := []*harness.Informer{
		configMaps(t, "client-go 0.37 typed", "default", rest.CopyConfig(relayed)),
		configMaps(t, "client-go 0.37 typed, protobuf only", "kube-public", inProtobuf(rest.CopyConfig(relayed))),
	}
	for _, inf := range informers {
		inf.MaxLists = 1
	}
	s.BetweenRelays(t, second, informers...)
}
