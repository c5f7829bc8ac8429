package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateRole validates a Role.
func validateRole(o *rbacv1.Role) field.ErrorList {
	return checkPolicyRules(field.NewPath("rules"), o.Rules, true)
}

// validateClusterRole validates a ClusterRole.
func validateClusterRole(o *rbacv1.ClusterRole) field.ErrorList {
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

// validateRoleBinding validates a RoleBinding.
func validateRoleBinding(o *rbacv1.RoleBinding) field.ErrorList {
	errs := checkRoleRef(&o.RoleRef, "Role", "ClusterRole")
	for i := range o.Subjects {
		errs = append(errs, checkSubject(field.NewPath("subjects").Index(i), &o.Subjects[i], true)...)
	}
	return errs
}

// validateClusterRoleBinding validates a ClusterRoleBinding.
func validateClusterRoleBinding(o *rbacv1.ClusterRoleBinding) field.ErrorList {
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

// validateRoleBindingUpdate validates the change of a RoleBinding from old to o.
func validateRoleBindingUpdate(o, old *rbacv1.RoleBinding) field.ErrorList {
	return keepRoleRef(o.RoleRef, old.RoleRef)
}

// validateClusterRoleBindingUpdate validates the change of a ClusterRoleBinding from old to o.
func validateClusterRoleBindingUpdate(o, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	return keepRoleRef(o.RoleRef, old.RoleRef)
}

func keepRoleRef(now, before rbacv1.RoleRef) field.ErrorList {
	if now == before {
		return nil
	}
	// The message prints upstream's internal type, whose members have no names for JSON.
	printed := struct{ APIGroup, Kind, Name string }(now)
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), printed, "field is immutable")}
}
