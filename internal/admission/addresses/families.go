package addresses

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// policyOf returns the policy that upstream takes for a headless Service; was is nil for a new one.
func policyOf(now, was *corev1.ServiceSpec) corev1.IPFamilyPolicy {
	switch {
	case now.IPFamilyPolicy != nil:
		return *now.IPFamilyPolicy
	case was != nil && was.IPFamilyPolicy != nil:
		return *was.IPFamilyPolicy
	case len(now.Selector) == 0:
		return corev1.IPFamilyPolicyRequireDualStack
	}
	return corev1.IPFamilyPolicySingleStack
}

// settled reports whether an update leaves a headless Service the families that it has, whatever the
// cluster has now (isMatchingPreferDualStackClusterIPFields).
func settled(now, was *corev1.ServiceSpec) bool {
	prefers := func(policy *corev1.IPFamilyPolicy) bool { return *policy == corev1.IPFamilyPolicyPreferDualStack }
	return was != nil && headless(was) && now.Type == was.Type && slices.Equal(now.IPFamilies, was.IPFamilies) &&
		now.IPFamilyPolicy != nil && prefers(now.IPFamilyPolicy) && (was.IPFamilyPolicy == nil || prefers(was.IPFamilyPolicy))
}

// releases reports whether an update says no more than that a headless Service has one family of two.
func releases(now, was *corev1.ServiceSpec) bool {
	return was != nil && len(now.IPFamilies) > 1 && slices.Equal(now.IPFamilies, was.IPFamilies) &&
		policyOf(now, was) == corev1.IPFamilyPolicySingleStack
}

// unfit returns why the cluster cannot have a headless Service, with upstream's texts
// (initIPFamilyFields). was is nil for a new one.
func (p Plugin) unfit(now, was *corev1.ServiceSpec) field.ErrorList {
	if !headless(now) || settled(now, was) {
		return nil
	}
	var errs field.ErrorList
	policy, families := policyOf(now, was), now.IPFamilies
	named, says := field.NewPath("spec", "ipFamilies"), field.NewPath("spec", "ipFamilyPolicy")
	one := policy == corev1.IPFamilyPolicySingleStack
	if !one && was != nil && len(families) > 0 && len(families) < len(was.IPFamilies) {
		errs = append(errs, field.Invalid(says, policy, "must be 'SingleStack' to release the secondary IP family"))
	}
	if releases(now, was) {
		families = families[:1]
	}
	if one && len(families) > 1 {
		errs = append(errs, field.Invalid(says, policy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	if len(errs) > 0 || len(now.Selector) == 0 { // without a selector it may have any
		return errs
	}
	of, both := p.families(), policy == corev1.IPFamilyPolicyRequireDualStack
	if len(of) == 0 {
		if both && len(families) == 1 {
			errs = append(errs, field.Required(named, unknownFamilies+"name both, or send this write to kube-apiserver"))
		}
		return errs
	}
	if both && len(of) < 2 {
		errs = append(errs, field.Invalid(says, policy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range families {
		if !slices.Contains(of, family) {
			errs = append(errs, field.Invalid(named.Index(i), family, "not configured on this cluster"))
		}
	}
	return errs
}
