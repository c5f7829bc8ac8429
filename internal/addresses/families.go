package addresses

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/core"
)

// Families are the IP families that the cluster's Services can have, the default first.
type Families []corev1.IPFamily

// Complete gives a Service its IP families and their policy; was is nil for a new one (upstream's initIPFamilyFields).
// What a Service has is not asked for again: it may be from before the cluster had other families. Errors have
// upstream's texts.
func (f Families) Complete(now, was *corev1.Service) field.ErrorList {
	spec, before := &now.Spec, specOf(was)
	if spec.Type == corev1.ServiceTypeExternalName || settled(spec, before) {
		return nil
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = new(policyOf(spec, before))
	}
	if errs := core.ValidateClusterIPs(now, was); len(errs) > 0 {
		return errs
	}
	if errs := append(reduce(spec, before), f.infer(spec, before)...); len(errs) > 0 {
		return errs
	}
	if headless(spec) && len(spec.Selector) == 0 { // it may have any
		f.fill(spec, true)
		return nil
	}
	if errs := f.unfit(spec, before); len(errs) > 0 {
		return errs
	}
	f.fill(spec, len(f) > 1)
	return nil
}

// policyOf returns the policy of a Service that names none.
func policyOf(now, was *corev1.ServiceSpec) corev1.IPFamilyPolicy {
	switch {
	case was != nil && was.IPFamilyPolicy != nil:
		return *was.IPFamilyPolicy
	case headless(now) && len(now.Selector) == 0:
		return corev1.IPFamilyPolicyRequireDualStack
	}
	return corev1.IPFamilyPolicySingleStack
}

// settled reports whether an update leaves a Service what it has, whatever the cluster has now
// (isMatchingPreferDualStackClusterIPFields).
func settled(now, was *corev1.ServiceSpec) bool {
	prefers := func(policy *corev1.IPFamilyPolicy) bool { return *policy == corev1.IPFamilyPolicyPreferDualStack }
	return was != nil && now.Type == was.Type && len(was.ClusterIPs) > 0 &&
		now.IPFamilyPolicy != nil && prefers(now.IPFamilyPolicy) && (was.IPFamilyPolicy == nil || prefers(was.IPFamilyPolicy)) &&
		slices.Equal(now.ClusterIPs, was.ClusterIPs) && slices.Equal(now.IPFamilies, was.IPFamilies)
}

// reduce takes the second address and family from a Service that is to have one only.
func reduce(now, was *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	at, policy := field.NewPath("spec", "ipFamilyPolicy"), *now.IPFamilyPolicy
	single := policy == corev1.IPFamilyPolicySingleStack
	switch {
	case was == nil:
	case single:
		if slices.Equal(now.ClusterIPs, was.ClusterIPs) && len(now.ClusterIPs) > 1 {
			now.ClusterIPs = now.ClusterIPs[:1:1]
		}
		if slices.Equal(now.IPFamilies, was.IPFamilies) && len(now.IPFamilies) > 1 {
			now.IPFamilies = now.IPFamilies[:1:1]
		}
	default:
		if n := len(now.ClusterIPs); n > 0 && n < len(was.ClusterIPs) {
			errs = append(errs, field.Invalid(at, policy, "must be 'SingleStack' to release the secondary cluster IP"))
		}
		if n := len(now.IPFamilies); n > 0 && n < len(was.IPFamilies) {
			errs = append(errs, field.Invalid(at, policy, "must be 'SingleStack' to release the secondary IP family"))
		}
	}
	if single && len(now.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(at, policy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
	if single && len(now.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(at, policy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	return errs
}

// infer adds the families of addresses that have none.
func (f Families) infer(spec, was *corev1.ServiceSpec) field.ErrorList {
	if headless(spec) {
		return nil
	}
	var errs field.ErrorList
	same := was != nil && len(spec.IPFamilies) == 0 && slices.Equal(spec.ClusterIPs, was.ClusterIPs)
	for i, text := range spec.ClusterIPs {
		ip, err := netip.ParseAddr(text)
		if err != nil || i < len(spec.IPFamilies) {
			continue // one of a form that only old objects have
		}
		if family := familyOf(ip); slices.Contains(f, family) || same {
			spec.IPFamilies = append(spec.IPFamilies, family)
		} else {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", family)))
		}
	}
	return errs
}

// unfit returns why the cluster cannot have a Service.
func (f Families) unfit(now, was *corev1.ServiceSpec) field.ErrorList {
	if keeps(now, was) {
		return nil
	}
	var errs field.ErrorList
	if *now.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(f) < 2 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), *now.IPFamilyPolicy,
			"this cluster is not configured for dual-stack services"))
	}
	for i, family := range now.IPFamilies {
		if !slices.Contains(f, family) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family,
				"not configured on this cluster"))
		}
	}
	return errs
}

// keeps reports whether an update leaves a Service the families that it has, and has addresses of or needs none.
func keeps(now, was *corev1.ServiceSpec) bool {
	return was != nil && was.IPFamilyPolicy != nil && *now.IPFamilyPolicy == *was.IPFamilyPolicy &&
		slices.Equal(now.IPFamilies, was.IPFamilies) &&
		(len(was.ClusterIPs) == len(was.IPFamilies) && !headless(was) || headless(was) && len(was.Selector) > 0)
}

// fill adds the default family, and the other one if the policy asks for both and they can be had.
func (f Families) fill(spec *corev1.ServiceSpec, both bool) {
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{f[0]}
	}
	if both && len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		spec.IPFamilies = append(spec.IPFamilies[:1:1], other(spec.IPFamilies[0]))
	}
}

// completeStored gives a Service that was stored without them its plural addresses, families and policy, as upstream
// does when it reads one (defaultOnReadService).
func (f Families) completeStored(spec *corev1.ServiceSpec) {
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.IPFamilyPolicy != nil || len(spec.ClusterIPs) == 0 {
		return
	}
	policy := corev1.IPFamilyPolicySingleStack
	switch {
	case len(spec.IPFamilies) > 1: // earlier versions stored it without a policy
		policy = corev1.IPFamilyPolicyRequireDualStack
	case len(spec.IPFamilies) > 0:
	case headless(spec) && len(spec.Selector) == 0:
		policy, spec.IPFamilies = corev1.IPFamilyPolicyRequireDualStack, Families{f[0], other(f[0])}
	case headless(spec):
		spec.IPFamilies = Families{f[0]}
	default:
		for _, text := range spec.ClusterIPs {
			ip, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
		}
		if len(spec.IPFamilies) > 1 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
	}
	spec.IPFamilyPolicy = &policy
}

func specOf(service *corev1.Service) *corev1.ServiceSpec {
	if service == nil {
		return nil
	}
	return &service.Spec
}

func headless(spec *corev1.ServiceSpec) bool { return spec.ClusterIP == corev1.ClusterIPNone }
