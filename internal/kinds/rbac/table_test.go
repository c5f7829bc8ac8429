package rbac_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/rbac"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestRoleRows(t *testing.T) {
	for _, resource := range []string{"roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io"} {
		tabletest.Check(
			t,
			tabletest.Of(rbac.Kinds(), resource),
			"Name | Created At",
			[]tabletest.Case{{"created", ``, "x | 2026-05-01T12:00:00Z"}},
		)
	}
}

func TestBindingRowsSortSubjectsByKind(t *testing.T) {
	for _, resource := range []string{"rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"} {
		tabletest.Check(
			t,
			tabletest.Of(rbac.Kinds(), resource),
			"Name | Role | Age | Users* | Groups* | ServiceAccounts*",
			[]tabletest.Case{
				{
					"mixed", `
roleRef: {kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, namespace: ci, name: builder}, {kind: User, name: joe}, {kind: Group, name: admins},` +
						` {kind: User, name: jane}, {kind: Other, name: o}]`,
					"x | ClusterRole/reader | 90m | joe, jane | admins | ci/builder",
				},
				{"nobody", `roleRef: {kind: Role, name: reader}`, "x | Role/reader | 90m |  |  |"},
			},
		)
	}
}
