package informer

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestInformerBehindARelayKeepsServerState: after a restart of the relay it compares some objects, as
// with any server that does not say who it is, which counts as two lists.
func TestInformerBehindARelayKeepsServerState(t *testing.T) {
	b := harness.StartRelayed(t)
	relayed, err := clientcmd.BuildConfigFromFlags("", b.Relay.Kubeconfig(t, b.Server.Kubeconfig, b.Clients.URL()))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	inf := configMaps(t, relayed, b.Clients)
	inf.MaxLists = 0
	b.UnderFailures(t, inf)
}
