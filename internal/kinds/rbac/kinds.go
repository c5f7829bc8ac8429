// Package rbac has the kinds of the group rbac.authorization.k8s.io: who may do what.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Cluster: true, CreateOnUpdate: true,
			Name:  kinds.SegmentName,
			Table: table.Created(),
		}, gokind.Rules[*rbacv1.ClusterRole]{Object: validateClusterRole}),
		gokind.Of(gokind.Row{
			Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding", Cluster: true, CreateOnUpdate: true,
			Name: kinds.SegmentName, Defaults: defaultBinding,
			Table: clusterRoleBindingTable(),
		}, gokind.Rules[*rbacv1.ClusterRoleBinding]{
			Object: validateClusterRoleBinding, Update: validateClusterRoleBindingUpdate,
		}),
		gokind.Of(gokind.Row{
			Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role", CreateOnUpdate: true, Name: kinds.SegmentName,
			Table: table.Created(),
		}, gokind.Rules[*rbacv1.Role]{Object: validateRole}),
		gokind.Of(gokind.Row{
			Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding", CreateOnUpdate: true,
			Name: kinds.SegmentName, Defaults: defaultBinding,
			Table: roleBindingTable(),
		}, gokind.Rules[*rbacv1.RoleBinding]{Object: validateRoleBinding, Update: validateRoleBindingUpdate}),
	}
}
