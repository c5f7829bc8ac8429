package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnIngress warns about a new Ingress.
func warnIngress(o, old *networkingv1.Ingress) []string {
	const class = "kubernetes.io/ingress.class"
	var l warn.List
	if _, has := o.Annotations[class]; has && old == nil && o.Spec.IngressClassName == nil {
		l.Say("annotation %q is deprecated, please use 'spec.ingressClassName' instead", class)
	}
	return l.Texts()
}

// warnIngressStatus warns about a change of the status of an Ingress.
func warnIngressStatus(o, _ *networkingv1.Ingress) []string {
	var l warn.List
	for i, point := range o.Status.LoadBalancer.Ingress {
		l.Address(func() *field.Path { return warn.PointAt(i) }, point.IP)
	}
	return l.Texts()
}

// warnNetworkPolicy warns about a NetworkPolicy.
func warnNetworkPolicy(o, _ *networkingv1.NetworkPolicy) []string {
	var l warn.List
	peers := func(at func() *field.Path, peers []networkingv1.NetworkPolicyPeer) {
		for i := range peers {
			block := peers[i].IPBlock
			if block == nil {
				continue
			}
			l.CIDR(func() *field.Path { return at().Index(i).Child("ipBlock", "cidr") }, block.CIDR)
			for j, except := range block.Except {
				l.CIDR(func() *field.Path { return at().Index(i).Child("ipBlock", "except").Index(j) }, except)
			}
		}
	}
	for i := range o.Spec.Ingress {
		peers(func() *field.Path { return field.NewPath("spec", "ingress").Index(i).Child("from") }, o.Spec.Ingress[i].From)
	}
	for i := range o.Spec.Egress {
		peers(func() *field.Path { return field.NewPath("spec", "egress").Index(i).Child("to") }, o.Spec.Egress[i].To)
	}
	return l.Texts()
}
