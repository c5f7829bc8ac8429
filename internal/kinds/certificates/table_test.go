package certificates_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/certificates"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestCertificateSigningRequestRows(t *testing.T) {
	const columns = "Name | Age | SignerName | Requestor | RequestedDuration | Condition"
	tabletest.Check(
		t,
		tabletest.Of(certificates.Kinds(), "certificatesigningrequests.certificates.k8s.io"),
		columns,
		[]tabletest.Case{
			{
				"pending",
				`spec: {signerName: example.org/s, username: jane, expirationSeconds: 3600}`,
				"x | 90m | example.org/s | jane | 60m | Pending",
			},
			{"approved", `status: {conditions: [{type: Approved}]}`, "x | 90m | <none> |  | <none> | Approved"},
			{
				"issued",
				`status: {certificate: eA==, conditions: [{type: Approved}]}`,
				"x | 90m | <none> |  | <none> | Approved,Issued",
			},
			{
				"denied after an approval",
				`status: {conditions: [{type: Approved}, {type: Denied}]}`,
				"x | 90m | <none> |  | <none> | Denied",
			},
			{
				"failed",
				`status: {conditions: [{type: Approved}, {type: Failed}]}`,
				"x | 90m | <none> |  | <none> | Approved,Failed",
			},
		},
	)
}

func TestPodCertificateRequestRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(certificates.Kinds(), "podcertificaterequests.certificates.k8s.io"),
		"Name | PodName | ServiceAccountName | NodeName | SignerName | State | UnverifiedUserAnnotations", []tabletest.Case{
			{
				"denied",
				`{spec: {podName: p, serviceAccountName: s, nodeName: node-1, signerName: a.b/c}, status: {conditions: [{type: ` +
					`Denied, status: "True"}]}}`,
				"x | p | s | node-1 | a.b/c | Denied | <none>",
			},
		})
}
