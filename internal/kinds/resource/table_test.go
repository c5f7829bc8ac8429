package printers_test

import "testing"

func TestResourceClaimRows(t *testing.T) {
	checkRows(t, "resourceclaims.resource.k8s.io", "Name | State | Age", []rowCase{
		{"new", `{}`, "x | pending | 90m"},
		{"allocated", `status: {allocation: {}}`, "x | allocated | 90m"},
		{"in use", `status: {allocation: {}, reservedFor: [{resource: pods, name: web, uid: a}]}`, "x | allocated,reserved | 90m"},
	})
}

func TestResourceSliceRows(t *testing.T) {
	checkRows(t, "resourceslices.resource.k8s.io", "Name | Node | Driver | Pool | Age", []rowCase{
		{"of a node", `spec: {driver: gpu.example.org, nodeName: node-1, pool: {name: a}}`, "x | node-1 | gpu.example.org | a | 90m"},
		{"of all nodes", `spec: {driver: gpu.example.org, allNodes: true, pool: {name: a}}`, "x |  | gpu.example.org | a | 90m"},
	})
}

func TestPodCertificateRequestRows(t *testing.T) {
	checkRows(t, "podcertificaterequests.certificates.k8s.io",
		"Name | PodName | ServiceAccountName | NodeName | SignerName | State | UnverifiedUserAnnotations", []rowCase{
			{
				"denied", `{spec: {podName: p, serviceAccountName: s, nodeName: node-1, signerName: a.b/c}, status: {conditions: [{type: Denied, status: "True"}]}}`,
				"x | p | s | node-1 | a.b/c | Denied | <none>",
			},
		})
}

func TestServiceCIDRRows(t *testing.T) {
	checkRows(t, "servicecidrs.networking.k8s.io", "Name | CIDRs | Age", []rowCase{
		{"of both families", `spec: {cidrs: [10.96.0.0/12, "fd00::/108"]}`, "x | 10.96.0.0/12,fd00::/108 | 90m"},
	})
}
