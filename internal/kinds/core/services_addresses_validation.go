package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// otherAddresses checks the addresses besides the cluster IPs of a service that was old before;
// an empty old one stands for none.
func otherAddresses(o, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range o.Spec.ExternalIPs {
		at := check.Spec("externalIPs").Index(i)
		if wrong := check.IP(at, ip, old.Spec.ExternalIPs); len(wrong) > 0 {
			errs = append(errs, wrong...)
		} else {
			errs = append(errs, check.Reachable(at, ip)...)
		}
	}
	return append(errs, sourceRanges(o, old)...)
}

// ValidateClusterIPs checks the cluster IPs of a Service, and their families. Upstream's allocator does so before
// anything else is checked (pkg/registry/core/service/storage alloc.go initIPFamilyFields). What an update leaves as it
// was is not checked: earlier versions stored any addresses.
func ValidateClusterIPs(o, old *corev1.Service) field.ErrorList {
	switch spec := &o.Spec; {
	case spec.Type == corev1.ServiceTypeExternalName:
		return nil
	case old == nil:
		return clusterAddresses(spec, nil)
	case sameClusterIPs(spec, &old.Spec):
		return checkFamilies(spec)
	default:
		return clusterAddresses(spec, old.Spec.ClusterIPs)
	}
}

func sameClusterIPs(a, b *corev1.ServiceSpec) bool {
	return a.ClusterIP == b.ClusterIP && slices.Equal(a.ClusterIPs, b.ClusterIPs) && slices.Equal(a.IPFamilies, b.IPFamilies)
}

// checkFamilies checks the families of the cluster IPs each for itself, and their policy.
func checkFamilies(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	repeated := check.Repeated(spec.IPFamilies)
	for i, family := range spec.IPFamilies {
		p := check.Spec("ipFamilies").Index(i)
		errs = append(errs, check.Known(p, "", family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if repeated[i] {
			errs = append(errs, field.Duplicate(p, family))
		}
	}
	return append(errs, check.KnownIfSet(check.Spec(), "ipFamilyPolicy", spec.IPFamilyPolicy,
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
}

// clusterAddresses checks the cluster IPs of a service, and how they fit together (upstream's
// ValidateServiceClusterIPsRelatedFields). Those that are kept may be of any form.
func clusterAddresses(spec *corev1.ServiceSpec, kept []string) field.ErrorList {
	at, ips := check.Spec("clusterIPs"), spec.ClusterIPs
	var errs field.ErrorList
	switch {
	case spec.ClusterIP == "" && len(ips) > 0:
		errs = append(errs, field.Invalid(at, ips, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(ips) == 0:
		errs = append(errs, field.Required(at, ""))
	case spec.ClusterIP != "" && ips[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(at, ips, "first value must match `clusterIP`"))
	}
	errs = append(errs, checkFamilies(spec)...)
	var wrong field.ErrorList
	for i, ip := range ips {
		if i > 0 || ip != corev1.ClusterIPNone {
			wrong = append(wrong, check.IP(at.Index(i), ip, kept)...)
		} else if len(ips) > 1 {
			wrong = append(wrong, field.Invalid(at, ips, "'None' must be the first and only value"))
		}
	}
	errs = append(errs, wrong...)
	if len(ips) > 2 {
		errs = append(errs, field.Invalid(at, ips, "may only hold up to 2 values"))
	}
	if len(wrong) > 0 {
		return errs // what follows would be misleading
	}
	errs = append(errs,
		check.OnePerFamily(at, ips[:min(len(ips), 2)], "may specify no more than one IP for each IP family", check.ParseIP)...)
	if spec.ClusterIP == corev1.ClusterIPNone {
		return errs
	}
	for i, ip := range ips[:min(len(ips), len(spec.IPFamilies))] {
		v6 := check.ParseIP(ip).To4() == nil
		if family := spec.IPFamilies[i]; family == corev1.IPv4Protocol && v6 || family == corev1.IPv6Protocol && !v6 {
			errs = append(errs,
				field.Invalid(at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i)))
		}
	}
	return errs
}

// sourceRanges checks from where a load balancer takes traffic: a field, and an annotation
// from before there was the field. Either may have white space around its ranges.
func sourceRanges(o, old *corev1.Service) field.ErrorList {
	// Upstream's path begins with a capital letter.
	at := check.Spec("LoadBalancerSourceRanges")
	ranges, annotation := o.Spec.LoadBalancerSourceRanges, ""
	if len(ranges) == 0 {
		value, has := o.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
		if !has {
			return nil
		}
		at, annotation = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey), value
	}
	var errs field.ErrorList
	if o.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at, "may only be used when `type` is 'LoadBalancer'"))
	}
	kept := make([]string, 0, len(old.Spec.LoadBalancerSourceRanges))
	for _, value := range old.Spec.LoadBalancerSourceRanges {
		kept = append(kept, strings.TrimSpace(value))
	}
	for i, value := range ranges {
		errs = append(errs, check.CIDR(at.Index(i), strings.TrimSpace(value), kept)...)
	}
	was, had := old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if annotation = strings.TrimSpace(annotation); annotation == "" || had && strings.TrimSpace(was) == annotation {
		return errs
	}
	for value := range strings.SplitSeq(annotation, ",") {
		errs = append(errs, check.CIDR(at, strings.TrimSpace(value), nil)...)
	}
	return errs
}
