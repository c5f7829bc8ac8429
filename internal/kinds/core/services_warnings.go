package warnings

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Service warns about a Service.
func Service(o, _ *corev1.Service) []string {
	var l list
	spec := &o.Spec
	if _, has := o.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; has {
		l.say("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode)
	}
	named := spec.Type == corev1.ServiceTypeExternalName
	if !named && spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			l.address(func() *field.Path { return field.NewPath("spec", "clusterIPs").Index(i) }, ip)
		}
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if headless {
		if spec.LoadBalancerIP != "" {
			l.say("spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			l.say("spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			l.say("spec.SessionAffinity is ignored for headless services")
		}
	}
	for i, ip := range spec.ExternalIPs {
		l.address(func() *field.Path { return field.NewPath("spec", "externalIPs").Index(i) }, ip)
	}
	if len(spec.ExternalIPs) > 0 && !headless && !named {
		l.say("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	l.address(func() *field.Path { return field.NewPath("spec", "loadBalancerIP") }, spec.LoadBalancerIP)
	for i, block := range spec.LoadBalancerSourceRanges {
		l.cidr(func() *field.Path { return field.NewPath("spec", "loadBalancerSourceRanges").Index(i) }, block)
	}
	if named && len(spec.ExternalIPs) > 0 {
		l.say("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	}
	if !named && spec.ExternalName != "" {
		l.say("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	if t := spec.TrafficDistribution; t != nil && *t == corev1.ServiceTrafficDistributionPreferClose {
		l.say("spec.trafficDistribution: %q is deprecated; use %q", corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone)
	}
	return l.texts
}

// pointAt is where services and ingresses say how they are reached.
func pointAt(i int) *field.Path { return field.NewPath("status", "loadBalancer", "ingress").Index(i) }

// ServiceStatus warns about a change of the status of a Service.
func ServiceStatus(o, _ *corev1.Service) []string {
	var l list
	for i, point := range o.Status.LoadBalancer.Ingress {
		l.address(func() *field.Path { return pointAt(i) }, point.IP)
	}
	return l.texts
}

// Ingress warns about a new Ingress.
func Ingress(o, old *networkingv1.Ingress) []string {
	const class = "kubernetes.io/ingress.class"
	var l list
	if _, has := o.Annotations[class]; has && old == nil && o.Spec.IngressClassName == nil {
		l.say("annotation %q is deprecated, please use 'spec.ingressClassName' instead", class)
	}
	return l.texts
}

// IngressStatus warns about a change of the status of an Ingress.
func IngressStatus(o, _ *networkingv1.Ingress) []string {
	var l list
	for i, point := range o.Status.LoadBalancer.Ingress {
		l.address(func() *field.Path { return pointAt(i) }, point.IP)
	}
	return l.texts
}

// NetworkPolicy warns about a NetworkPolicy.
func NetworkPolicy(o, _ *networkingv1.NetworkPolicy) []string {
	var l list
	peers := func(at func() *field.Path, peers []networkingv1.NetworkPolicyPeer) {
		for i := range peers {
			block := peers[i].IPBlock
			if block == nil {
				continue
			}
			l.cidr(func() *field.Path { return at().Index(i).Child("ipBlock", "cidr") }, block.CIDR)
			for j, except := range block.Except {
				l.cidr(func() *field.Path { return at().Index(i).Child("ipBlock", "except").Index(j) }, except)
			}
		}
	}
	for i := range o.Spec.Ingress {
		peers(func() *field.Path { return field.NewPath("spec", "ingress").Index(i).Child("from") }, o.Spec.Ingress[i].From)
	}
	for i := range o.Spec.Egress {
		peers(func() *field.Path { return field.NewPath("spec", "egress").Index(i).Child("to") }, o.Spec.Egress[i].To)
	}
	return l.texts
}

// Endpoints warns about an Endpoints, unless upstream's controller has made it.
func Endpoints(o, _ *corev1.Endpoints) []string { //nolint:staticcheck // clients may use EndpointSlice; a server serves both
	if o.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var l list
	for i := range o.Subsets {
		subset := func(list string, j int) *field.Path {
			return field.NewPath("subsets").Index(i).Child(list).Index(j).Child("ip")
		}
		for j := range o.Subsets[i].Addresses {
			l.address(func() *field.Path { return subset("addresses", j) }, o.Subsets[i].Addresses[j].IP)
		}
		for j := range o.Subsets[i].NotReadyAddresses {
			l.address(func() *field.Path { return subset("notReadyAddresses", j) }, o.Subsets[i].NotReadyAddresses[j].IP)
		}
	}
	return l.texts
}

// EndpointSlice warns about an EndpointSlice. Addresses that upstream's controllers have
// written are in order.
func EndpointSlice(o, old *discoveryv1.EndpointSlice) []string {
	var l list
	if old == nil && o.AddressType == discoveryv1.AddressTypeFQDN {
		l.say("spec.addressType: FQDN endpoints are deprecated")
	}
	switch o.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return l.texts
	}
	for i := range o.Endpoints {
		for j, address := range o.Endpoints[i].Addresses {
			l.address(func() *field.Path { return field.NewPath("endpoints").Index(i).Child("addresses").Index(j) }, address)
		}
	}
	return l.texts
}
