package printers

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// policy has the printers of kinds for permissions and priorities. Upstream describes some
// columns with the documentation of v1beta1.
func policy(resource string) (Printer, bool) {
	switch resource {
	case "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io":
		return of(createdCells, createdAt()...), true
	case "rolebindings.rbac.authorization.k8s.io":
		return of(func(o *rbacv1.RoleBinding, r row) []any {
			return bindingCells(r, o.RoleRef, o.Subjects)
		}, bindingColumns("roleBinding", doc(rbacv1beta1.RoleBinding{}, "roleRef"))...), true
	case "clusterrolebindings.rbac.authorization.k8s.io":
		return of(func(o *rbacv1.ClusterRoleBinding, r row) []any {
			return bindingCells(r, o.RoleRef, o.Subjects)
		}, bindingColumns("clusterRoleBinding", doc(rbacv1beta1.ClusterRoleBinding{}, "roleRef"))...), true
	case "poddisruptionbudgets.policy":
		return of(budgetCells, name(),
			str("Min Available", "The minimum number of pods that must be available."),
			str("Max Unavailable", "The maximum number of pods that may be unavailable."),
			integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
			age()), true
	case "priorityclasses.scheduling.k8s.io":
		class := schedulingv1.PriorityClass{}
		return of(func(o *schedulingv1.PriorityClass, r row) []any {
			return []any{r.name, int64(o.Value), o.GlobalDefault, r.age, text(o.PreemptionPolicy, "")}
		}, name(), integer("Value", doc(class, "value")), boolean("Global-Default", doc(class, "globalDefault")), age(),
			str("PreemptionPolicy", doc(class, "preemptionPolicy"))), true
	}
	return Printer{}, false
}

func budgetCells(o *policyv1.PodDisruptionBudget, r row) []any {
	shown := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{r.name, shown(o.Spec.MinAvailable), shown(o.Spec.MaxUnavailable), int64(o.Status.DisruptionsAllowed), r.age}
}

// bindingColumns are the columns of a kind of bindings; role describes its role.
func bindingColumns(kind, role string) []column {
	return append([]column{name(), str("Role", role), age()},
		wide(str("Users", "Users in the "+kind), str("Groups", "Groups in the "+kind), str("ServiceAccounts", "ServiceAccounts in the "+kind))...)
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
