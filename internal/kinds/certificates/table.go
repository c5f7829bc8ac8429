package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func requestTable() kinds.Table {
	spec := certificatesv1beta1.CertificateSigningRequestSpec{} // of v1beta1, as upstream
	return table.Of(requestCells, table.Name(), table.Age(), table.Str("SignerName", table.Doc(spec, "signerName")),
		table.Str("Requestor", table.Doc(spec, "request")), table.Str("RequestedDuration", table.Doc(spec, "expirationSeconds")),
		table.Str("Condition", table.Doc(certificatesv1beta1.CertificateSigningRequestStatus{}, "conditions")))
}

func trustBundleTable() kinds.Table {
	return table.Of(func(o *certificatesv1.ClusterTrustBundle, r table.Meta) []any {
		return []any{r.Name, table.OrNone(o.Spec.SignerName)}
	}, table.Name(), table.Str("SignerName", table.Doc(certificatesv1.ClusterTrustBundleSpec{}, "signerName")))
}

func podRequestTable() kinds.Table {
	spec := certificatesv1.PodCertificateRequestSpec{}
	t := table.Of(
		podRequestCells,
		table.Name(),
		table.Str("PodName", table.Doc(spec, "podName")),
		table.Str(
			"ServiceAccountName",
			table.Doc(spec, "serviceAccountName"),
		),
		table.Str("NodeName", table.Doc(spec, "nodeName")),
		table.Str("SignerName", table.Doc(spec, "signerName")),
		table.Str("State", "Is the request Pending, Issued, Denied, or Failed?"),
		table.Str("UnverifiedUserAnnotations", table.Doc(spec, "unverifiedUserAnnotations")),
	)
	t.RowsSince = 35
	return t
}

func requestCells(o *certificatesv1.CertificateSigningRequest, r table.Meta) []any {
	lasts := "<none>"
	if s := o.Spec.ExpirationSeconds; s != nil {
		lasts = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{r.Name, r.Age, table.OrNone(o.Spec.SignerName), o.Spec.Username, lasts, requestState(o)}
}

// requestState returns the state of a request as kubectl shows it.
func requestState(o *certificatesv1.CertificateSigningRequest) string {
	set := map[certificatesv1.RequestConditionType]bool{}
	for _, c := range o.Status.Conditions {
		set[c.Type] = true
	}
	state := "Pending"
	switch {
	case set[certificatesv1.CertificateDenied]:
		state = "Denied"
	case set[certificatesv1.CertificateApproved]:
		state = "Approved"
	}
	if set[certificatesv1.CertificateFailed] {
		state += ",Failed"
	}
	if len(o.Status.Certificate) > 0 {
		state += ",Issued"
	}
	return state
}

func podRequestCells(o *certificatesv1.PodCertificateRequest, r table.Meta) []any {
	state := "Pending"
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			state = c.Type
		}
	}
	return []any{
		r.Name, o.Spec.PodName, o.Spec.ServiceAccountName, string(o.Spec.NodeName), o.Spec.SignerName, state,
		labels.FormatLabels(o.Spec.UnverifiedUserAnnotations),
	}
}
