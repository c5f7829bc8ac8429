package builtin

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema"
)

func checkDisruptionBudget(o *policyv1.PodDisruptionBudget) field.ErrorList {
	var errs field.ErrorList
	if o.Spec.MinAvailable != nil && o.Spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(specPath(), o.Spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, intOrPercent(specPath("minAvailable"), o.Spec.MinAvailable)...)
	errs = append(errs, intOrPercent(specPath("maxUnavailable"), o.Spec.MaxUnavailable)...)
	return append(errs, labelSelector(specPath("selector"), o.Spec.Selector)...)
}

func checkPriorityClass(o *schedulingv1.PriorityClass) field.ErrorList {
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
		errs = append(errs, field.Forbidden(field.NewPath("value"), "maximum allowed value of a user defined priority is 1000000000"))
	}
	if o.PreemptionPolicy != nil {
		errs = append(errs, oneOf(field.NewPath("preemptionPolicy"), *o.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

func keepPriorityClass(o, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if o.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, kept(field.NewPath("preemptionPolicy"), o.PreemptionPolicy, old.PreemptionPolicy)...)
}

func checkStorageClass(o *storagev1.StorageClass) field.ErrorList {
	errs := required(field.NewPath("provisioner"), o.Provisioner, nil)
	if o.ReclaimPolicy != nil {
		errs = append(errs, oneOf(field.NewPath("reclaimPolicy"), *o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	if o.VolumeBindingMode != nil {
		errs = append(errs, oneOf(field.NewPath("volumeBindingMode"), *o.VolumeBindingMode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return errs
}

func keepStorageClass(o, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(o.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	if o.Provisioner != old.Provisioner {
		errs = append(errs, field.Forbidden(field.NewPath("provisioner"), "updates to provisioner are forbidden."))
	}
	if !equality.Semantic.DeepEqual(o.ReclaimPolicy, old.ReclaimPolicy) {
		errs = append(errs, field.Forbidden(field.NewPath("reclaimPolicy"), "updates to reclaimPolicy are forbidden."))
	}
	return append(errs, kept(field.NewPath("volumeBindingMode"), o.VolumeBindingMode, old.VolumeBindingMode)...)
}

func checkRole(o *rbacv1.Role) field.ErrorList {
	return checkPolicyRules(field.NewPath("rules"), o.Rules, true)
}

func checkClusterRole(o *rbacv1.ClusterRole) field.ErrorList {
	errs := checkPolicyRules(field.NewPath("rules"), o.Rules, false)
	if o.AggregationRule == nil {
		return errs
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(o.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range o.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, labelSelector(at.Index(i), &o.AggregationRule.ClusterRoleSelectors[i])...)
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
				errs = append(errs, field.Invalid(p.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(p.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
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

func checkRoleBinding(o *rbacv1.RoleBinding) field.ErrorList {
	errs := checkRoleRef(&o.RoleRef, "ClusterRole", "Role")
	for i := range o.Subjects {
		errs = append(errs, checkSubject(field.NewPath("subjects").Index(i), &o.Subjects[i], true)...)
	}
	return errs
}

func checkClusterRoleBinding(o *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := checkRoleRef(&o.RoleRef, "ClusterRole")
	for i := range o.Subjects {
		errs = append(errs, checkSubject(field.NewPath("subjects").Index(i), &o.Subjects[i], false)...)
	}
	return errs
}

func checkRoleRef(ref *rbacv1.RoleRef, kinds ...string) field.ErrorList {
	at := field.NewPath("roleRef")
	var errs field.ErrorList
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	errs = append(errs, oneOf(at.Child("kind"), ref.Kind, kinds...)...)
	return append(errs, required(at.Child("name"), ref.Name, schema.SegmentName)...)
}

// checkSubject checks a subject; in a namespaced binding a service account's
// namespace may be left out.
func checkSubject(at *field.Path, s *rbacv1.Subject, namespaced bool) field.ErrorList {
	errs := required(at.Child("name"), s.Name, nil)
	group := rbacv1.GroupName
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		group = ""
		if s.Name != "" {
			errs = append(errs, invalidBecause(at.Child("name"), s.Name, schema.SubdomainName(s.Name))...)
		}
		if s.Namespace == "" && !namespaced {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
	default:
		return append(errs, field.NotSupported(at.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	if s.APIGroup != group {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{group}))
	}
	return errs
}

func keepRoleBinding(o, old *rbacv1.RoleBinding) field.ErrorList {
	return keepRoleRef(o.RoleRef, old.RoleRef)
}

func keepClusterRoleBinding(o, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	return keepRoleRef(o.RoleRef, old.RoleRef)
}

func keepRoleRef(now, before rbacv1.RoleRef) field.ErrorList {
	if now == before {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), now, "cannot change roleRef")}
}
