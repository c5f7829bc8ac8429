package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
)

// PodDisruptionBudget validates a PodDisruptionBudget.
func PodDisruptionBudget(o *policyv1.PodDisruptionBudget) field.ErrorList {
	var errs field.ErrorList
	if o.Spec.MinAvailable != nil && o.Spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(check.Spec(), o.Spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, intOrPercent(check.Spec("minAvailable"), o.Spec.MinAvailable)...)
	errs = append(errs, intOrPercent(check.Spec("maxUnavailable"), o.Spec.MaxUnavailable)...)
	errs = append(errs, notMoreThanAll(check.Spec("minAvailable"), o.Spec.MinAvailable)...)
	errs = append(errs, notMoreThanAll(check.Spec("maxUnavailable"), o.Spec.MaxUnavailable)...)
	errs = append(errs,
		check.KnownIfSet(check.Spec(), "unhealthyPodEvictionPolicy", o.Spec.UnhealthyPodEvictionPolicy, policyv1.AlwaysAllow,
			policyv1.IfHealthyBudget)...)
	errs = append(errs, budgetStatus(&o.Status)...)
	return append(errs, check.LabelSelector(check.Spec("selector"), o.Spec.Selector)...)
}

// NewPriorityClass validates a new PriorityClass; what it checks cannot change.
func NewPriorityClass(o *schedulingv1.PriorityClass) field.ErrorList {
	// 1e9: HighestUserDefinablePriority of pkg/apis/scheduling/types.go.
	const highest = 1_000_000_000
	system := map[string]int32{"system-cluster-critical": 2 * highest, "system-node-critical": 2*highest + 1000}
	var errs field.ErrorList
	if strings.HasPrefix(o.Name, "system-") {
		if value, known := system[o.Name]; !known || value != o.Value {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only"))
		}
	} else if o.Value > highest {
		errs = append(errs,
			field.Forbidden(field.NewPath("value"), "maximum allowed value of a user defined priority is 1000000000"))
	}
	if o.PreemptionPolicy != nil {
		errs = append(errs,
			check.OneOf(nil, "preemptionPolicy", *o.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// PriorityClassUpdate validates the change of a PriorityClass from old to o.
func PriorityClassUpdate(o, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if o.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Unchanged(nil, "preemptionPolicy", o.PreemptionPolicy, old.PreemptionPolicy)...)
}

// Role validates a Role.
func Role(o *rbacv1.Role) field.ErrorList {
	return checkPolicyRules(field.NewPath("rules"), o.Rules, true)
}

// ClusterRole validates a ClusterRole.
func ClusterRole(o *rbacv1.ClusterRole) field.ErrorList {
	errs := checkPolicyRules(field.NewPath("rules"), o.Rules, false)
	if o.AggregationRule == nil {
		return errs
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(o.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range o.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, check.LabelSelector(at.Index(i), &o.AggregationRule.ClusterRoleSelectors[i])...)
	}
	return errs
}

// checkPolicyRules checks the rules of a role; a namespaced one has no URLs.
func checkPolicyRules(at *field.Path, rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		p := at.Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(p.Child("verbs"), "verbs must contain at least one value"))
		}
		if len(rule.NonResourceURLs) > 0 {
			if namespaced {
				errs = append(errs,
					field.Invalid(p.Child("nonResourceURLs"), rule.NonResourceURLs,
						"namespaced rules cannot apply to non-resource URLs"))
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				errs = append(errs,
					field.Invalid(p.Child("nonResourceURLs"), rule.NonResourceURLs,
						"rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(p.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(p.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

// RoleBinding validates a RoleBinding.
func RoleBinding(o *rbacv1.RoleBinding) field.ErrorList {
	errs := checkRoleRef(&o.RoleRef, "ClusterRole", "Role")
	for i := range o.Subjects {
		errs = append(errs, checkSubject(field.NewPath("subjects").Index(i), &o.Subjects[i], true)...)
	}
	return errs
}

// ClusterRoleBinding validates a ClusterRoleBinding.
func ClusterRoleBinding(o *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := checkRoleRef(&o.RoleRef, "ClusterRole")
	for i := range o.Subjects {
		errs = append(errs, checkSubject(field.NewPath("subjects").Index(i), &o.Subjects[i], false)...)
	}
	return errs
}

func checkRoleRef(ref *rbacv1.RoleRef, allowed ...string) field.ErrorList {
	at := field.NewPath("roleRef")
	var errs field.ErrorList
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	errs = append(errs, check.Known(at, "kind", ref.Kind, allowed...)...)
	return append(errs, check.Required(at, "name", ref.Name, kinds.SegmentName)...)
}

// checkSubject checks a subject; in a namespaced binding a service account's
// namespace may be left out.
func checkSubject(at *field.Path, s *rbacv1.Subject, namespaced bool) field.ErrorList {
	errs := check.Required(at, "name", s.Name, nil)
	group := rbacv1.GroupName
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		group = ""
		if s.Name != "" {
			errs = append(errs, check.Invalid(at.Child("name"), s.Name, kinds.SubdomainName(s.Name))...)
		}
		if s.Namespace == "" && !namespaced {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
	default:
		return append(errs,
			field.NotSupported(at.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	if s.APIGroup != group {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{group}))
	}
	return errs
}

// RoleBindingUpdate validates the change of a RoleBinding from old to o.
func RoleBindingUpdate(o, old *rbacv1.RoleBinding) field.ErrorList {
	return keepRoleRef(o.RoleRef, old.RoleRef)
}

// ClusterRoleBindingUpdate validates the change of a ClusterRoleBinding from old to o.
func ClusterRoleBindingUpdate(o, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	return keepRoleRef(o.RoleRef, old.RoleRef)
}

func keepRoleRef(now, before rbacv1.RoleRef) field.ErrorList {
	if now == before {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), now, "cannot change roleRef")}
}
