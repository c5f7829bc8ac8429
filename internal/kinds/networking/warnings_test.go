package networking

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

func TestManyWarningsAboutAPolicyAreCutOff(t *testing.T) {
	const n, most = 60_000, 400
	peers := make([]networkingv1.NetworkPolicyPeer, n)
	for i := range n {
		peers[i] = networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("2001:DB8::%x/128", i)}}
	}
	policy := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}},
	}}
	if got := warnNetworkPolicy(policy, nil); len(got) != most {
		t.Errorf("%d warnings about a policy, want %d", len(got), most)
	}
}
