package printers_test

import "testing"

func TestRoleRows(t *testing.T) {
	for _, resource := range []string{"roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io"} {
		checkRows(t, resource, "Name | Created At", []rowCase{{"created", ``, "x | 2026-05-01T12:00:00Z"}})
	}
}

func TestBindingRowsSortSubjectsByKind(t *testing.T) {
	for _, resource := range []string{"rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"} {
		checkRows(t, resource, "Name | Role | Age | Users* | Groups* | ServiceAccounts*", []rowCase{
			{
				"mixed", `
roleRef: {kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, namespace: ci, name: builder}, {kind: User, name: joe}, {kind: Group, name: admins}, {kind: User, name: jane}, {kind: Other, name: o}]`,
				"x | ClusterRole/reader | 90m | joe, jane | admins | ci/builder",
			},
			{"nobody", `roleRef: {kind: Role, name: reader}`, "x | Role/reader | 90m |  |  |"},
		})
	}
}

func TestPodDisruptionBudgetRows(t *testing.T) {
	checkRows(t, "poddisruptionbudgets.policy", "Name | Min Available | Max Unavailable | Allowed Disruptions | Age", []rowCase{
		{"least", `{spec: {minAvailable: 2}, status: {disruptionsAllowed: 3}}`, "x | 2 | N/A | 3 | 90m"},
		{"most", `{spec: {maxUnavailable: 25%}}`, "x | N/A | 25% | 0 | 90m"},
	})
}

func TestPriorityClassRows(t *testing.T) {
	checkRows(t, "priorityclasses.scheduling.k8s.io", "Name | Value | Global-Default | Age | PreemptionPolicy", []rowCase{
		{"default", `{value: 1000, globalDefault: true, preemptionPolicy: Never}`, "x | 1000 | true | 90m | Never"},
		{"not defaulted", `{value: -1}`, "x | -1 | false | 90m |"},
	})
}

func TestCertificateSigningRequestRows(t *testing.T) {
	const columns = "Name | Age | SignerName | Requestor | RequestedDuration | Condition"
	checkRows(t, "certificatesigningrequests.certificates.k8s.io", columns, []rowCase{
		{"pending", `spec: {signerName: example.org/s, username: jane, expirationSeconds: 3600}`, "x | 90m | example.org/s | jane | 60m | Pending"},
		{"approved", `status: {conditions: [{type: Approved}]}`, "x | 90m | <none> |  | <none> | Approved"},
		{"issued", `status: {certificate: eA==, conditions: [{type: Approved}]}`, "x | 90m | <none> |  | <none> | Approved,Issued"},
		{"denied after an approval", `status: {conditions: [{type: Approved}, {type: Denied}]}`, "x | 90m | <none> |  | <none> | Denied"},
		{"failed", `status: {conditions: [{type: Approved}, {type: Failed}]}`, "x | 90m | <none> |  | <none> | Approved,Failed"},
	})
}

func TestRuntimeClassRows(t *testing.T) {
	checkRows(t, "runtimeclasses.node.k8s.io", "Name | Handler | Age", []rowCase{{"sandboxed", `handler: runsc`, "x | runsc | 90m"}})
}

func TestCustomResourceDefinitionRows(t *testing.T) {
	const columns = "Name | Scope | Versions | Created At | Group* | Kind* | ShortNames* | Established*"
	checkRows(t, "customresourcedefinitions.apiextensions.k8s.io", columns, []rowCase{
		{
			"established", `
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, shortNames: [wd, wid]}
  versions: [{name: v1beta1, served: true}, {name: v1alpha1}, {name: v1, served: true, storage: true}]
status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}`,
			"x | Namespaced | v1(storage),v1beta1 | 2026-05-01T12:00:00Z | example.org | Widget | wd,wid | true",
		},
		{
			"not served", `{spec: {group: example.org, scope: Cluster, names: {kind: Gadget}, versions: [{name: v1, storage: true}]}, status: {conditions: [{type: Established, status: "False"}]}}`,
			"x | Cluster |  | 2026-05-01T12:00:00Z | example.org | Gadget |  | false",
		},
	})
}
