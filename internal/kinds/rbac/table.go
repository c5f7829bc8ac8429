package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// Upstream describes some columns with the documentation of v1beta1.

func roleBindingTable() kinds.Table {
	return table.Of(func(o *rbacv1.RoleBinding, r table.Meta) []any {
		return bindingCells(r, o.RoleRef, o.Subjects)
	}, bindingColumns("roleBinding", table.Doc(rbacv1beta1.RoleBinding{}, "roleRef"))...)
}

func clusterRoleBindingTable() kinds.Table {
	return table.Of(func(o *rbacv1.ClusterRoleBinding, r table.Meta) []any {
		return bindingCells(r, o.RoleRef, o.Subjects)
	}, bindingColumns("clusterRoleBinding", table.Doc(rbacv1beta1.ClusterRoleBinding{}, "roleRef"))...)
}

// bindingColumns are the columns of a kind of bindings; role describes its role.
func bindingColumns(kind, role string) []table.Column {
	return append(
		[]table.Column{table.Name(), table.Str("Role", role), table.Age()},
		table.Wide(
			table.Str("Users", "Users in the "+kind),
			table.Str("Groups", "Groups in the "+kind),
			table.Str("ServiceAccounts", "ServiceAccounts in the "+kind),
		)...)
}

func bindingCells(r table.Meta, ref rbacv1.RoleRef, subjects []rbacv1.Subject) []any {
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
	return []any{r.Name, ref.Kind + "/" + ref.Name, r.Age, join(users), join(groups), join(accounts)}
}
