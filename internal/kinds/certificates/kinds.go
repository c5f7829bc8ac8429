// Package certificates has the kinds of the group certificates.k8s.io, with the subresources of signing
// requests. Nothing signs here.
package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest", Short: []string{"csr"},
			Cluster: true, Status: true, Name: kinds.SegmentName, Keeps: []string{"spec"}, Signed: sign,
			Fields: []wire.FieldPath{gokind.At("spec.signerName")}, Subresources: subresources(),
			Table: requestTable(),
		}, gokind.Rules[*certificatesv1.CertificateSigningRequest]{Object: validateCertificateSigningRequest}),
		gokind.Of(gokind.Row{
			Group: "certificates.k8s.io", Version: "v1", Kind: "ClusterTrustBundle", Cluster: true, NeedsVersion: true,
			// It begins with that of the signer, which the rule for the object checks.
			Name: func(string) []string { return nil }, Fields: []wire.FieldPath{gokind.At("spec.signerName")},
			Table: trustBundleTable(),
		}, gokind.Rules[*certificatesv1.ClusterTrustBundle]{Create: validateNewTrustBundle, Update: validateTrustBundleUpdate}),
		gokind.Of(gokind.Row{
			Group: "certificates.k8s.io", Version: "v1", Kind: "PodCertificateRequest", Status: true,
			NeedsVersion: true, NoNamespaceField: true,
			Defaults:    defaultPodRequest,
			Fields:      []wire.FieldPath{gokind.At("spec.nodeName"), gokind.At("spec.podName"), gokind.At("spec.signerName")},
			StatusKeeps: gokind.KeptMetadata(), Table: podRequestTable(),
		}, gokind.Rules[*certificatesv1.PodCertificateRequest]{
			Create: validateNewPodCertificateRequest, Update: validatePodCertificateRequestUpdate,
		}),
	}
}
