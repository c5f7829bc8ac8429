package printers

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func policy(resource string) (Printer, bool) {
	switch resource {
	case "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io", "customresourcedefinitions.apiextensions.k8s.io":
		return of("Name|Created At", func(_ *metav1.PartialObjectMetadata, r row) []any { return []any{r.name, stamp(r.created)} }), true
	case "rolebindings.rbac.authorization.k8s.io":
		return of("Name|Role|Age|Users*|Groups*|ServiceAccounts*", func(o *rbacv1.RoleBinding, r row) []any {
			return bindingCells(r, o.RoleRef, o.Subjects)
		}), true
	case "clusterrolebindings.rbac.authorization.k8s.io":
		return of("Name|Role|Age|Users*|Groups*|ServiceAccounts*", func(o *rbacv1.ClusterRoleBinding, r row) []any {
			return bindingCells(r, o.RoleRef, o.Subjects)
		}), true
	case "poddisruptionbudgets.policy":
		return of("Name|Min Available|Max Unavailable|Allowed Disruptions|Age", func(o *policyv1.PodDisruptionBudget, r row) []any {
			least, most := "N/A", "N/A"
			if v := o.Spec.MinAvailable; v != nil {
				least = v.String()
			}
			if v := o.Spec.MaxUnavailable; v != nil {
				most = v.String()
			}
			return []any{r.name, least, most, int64(o.Status.DisruptionsAllowed), r.age}
		}), true
	case "priorityclasses.scheduling.k8s.io":
		return of("Name|Value|Global-Default|Age|PreemptionPolicy", func(o *schedulingv1.PriorityClass, r row) []any {
			return []any{r.name, int64(o.Value), o.GlobalDefault, r.age, text(o.PreemptionPolicy, "")}
		}), true
	}
	return Printer{}, false
}

func bindingCells(r row, ref rbacv1.RoleRef, subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	join := func(s []string) string { return strings.Join(s, ", ") }
	return []any{r.name, ref.Kind + "/" + ref.Name, r.age, join(users), join(groups), join(accounts)}
}
