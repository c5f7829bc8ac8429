// Package networking has the kinds of the group networking.k8s.io.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "networking.k8s.io", Version: "v1", Kind: "Ingress", Plural: "ingresses", Short: []string{"ing"}, Status: true,
			Generation: kinds.GenerationOfSpec, Table: ingressTable(),
		}, gokind.Rules[*networkingv1.Ingress]{
			Object: validateIngress, Status: validateIngressStatus, Warn: warnIngress, WarnStatus: warnIngressStatus,
		}),
		gokind.Of(gokind.Row{
			Group: "networking.k8s.io", Version: "v1", Kind: "IngressClass", Plural: "ingressclasses", Cluster: true,
			Defaults:   defaultIngressClass,
			Generation: kinds.GenerationOfSpec, Table: ingressClassTable(),
		}, gokind.Rules[*networkingv1.IngressClass]{Object: validateIngressClass, Update: validateIngressClassUpdate}),
		gokind.Of(gokind.Row{
			Group: "networking.k8s.io", Version: "v1", Kind: "IPAddress", Plural: "ipaddresses",
			Short: []string{"ip"}, Cluster: true,
			Name:  addressName,
			Table: addressTable(),
		}, gokind.Rules[*networkingv1.IPAddress]{Object: validateIPAddress, Update: validateIPAddressUpdate}),
		gokind.Of(gokind.Row{
			Group: "networking.k8s.io", Version: "v1", Kind: "ServiceCIDR", Cluster: true, Status: true,
			StatusKeeps: gokind.KeptMetadata(), Table: serviceCIDRTable(),
		}, gokind.Rules[*networkingv1.ServiceCIDR]{Create: validateNewServiceCIDR, Update: validateServiceCIDRUpdate}),
		gokind.Of(gokind.Row{
			Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy", Plural: "networkpolicies",
			Short:      []string{"netpol"},
			Defaults:   defaultNetworkPolicy,
			Generation: kinds.GenerationOfSpec, Table: networkPolicyTable(),
		}, gokind.Rules[*networkingv1.NetworkPolicy]{
			Create: validateNewNetworkPolicy, Update: validateNetworkPolicyUpdate, Warn: warnNetworkPolicy,
		}),
	}
}
