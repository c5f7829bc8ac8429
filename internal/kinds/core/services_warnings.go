package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnService warns about a Service.
func warnService(o, _ *corev1.Service) []string {
	var l warn.List
	spec := &o.Spec
	if _, has := o.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; has {
		l.Say(
			"annotation %s is deprecated, please use %s instead",
			corev1.DeprecatedAnnotationTopologyAwareHints,
			corev1.AnnotationTopologyMode,
		)
	}
	named := spec.Type == corev1.ServiceTypeExternalName
	if !named && spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			l.Address(func() *field.Path { return field.NewPath("spec", "clusterIPs").Index(i) }, ip)
		}
	}
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if headless {
		if spec.LoadBalancerIP != "" {
			l.Say("spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			l.Say("spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			l.Say("spec.SessionAffinity is ignored for headless services")
		}
	}
	for i, ip := range spec.ExternalIPs {
		l.Address(func() *field.Path { return field.NewPath("spec", "externalIPs").Index(i) }, ip)
	}
	if len(spec.ExternalIPs) > 0 && !headless && !named {
		l.Say("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	l.Address(func() *field.Path { return field.NewPath("spec", "loadBalancerIP") }, spec.LoadBalancerIP)
	for i, block := range spec.LoadBalancerSourceRanges {
		l.CIDR(func() *field.Path { return field.NewPath("spec", "loadBalancerSourceRanges").Index(i) }, block)
	}
	if named && len(spec.ExternalIPs) > 0 {
		l.Say("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	}
	if !named && spec.ExternalName != "" {
		l.Say("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	if t := spec.TrafficDistribution; t != nil && *t == corev1.ServiceTrafficDistributionPreferClose {
		l.Say(
			"spec.trafficDistribution: %q is deprecated; use %q",
			corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone,
		)
	}
	return l.Texts()
}

// warnServiceStatus warns about a change of the status of a Service.
func warnServiceStatus(o, _ *corev1.Service) []string {
	var l warn.List
	for i, point := range o.Status.LoadBalancer.Ingress {
		l.Address(func() *field.Path { return warn.PointAt(i) }, point.IP)
	}
	return l.Texts()
}

// warnEndpoints warns about an Endpoints, unless upstream's controller has made it.
func warnEndpoints(o, _ *corev1.Endpoints) []string { //nolint:staticcheck // clients may use EndpointSlice; a server serves both
	if o.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var l warn.List
	for i := range o.Subsets {
		subset := func(list string, j int) *field.Path {
			return field.NewPath("subsets").Index(i).Child(list).Index(j).Child("ip")
		}
		for j := range o.Subsets[i].Addresses {
			l.Address(func() *field.Path { return subset("addresses", j) }, o.Subsets[i].Addresses[j].IP)
		}
		for j := range o.Subsets[i].NotReadyAddresses {
			l.Address(func() *field.Path { return subset("notReadyAddresses", j) }, o.Subsets[i].NotReadyAddresses[j].IP)
		}
	}
	return l.Texts()
}
