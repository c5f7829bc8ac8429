package printers

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// machinery has the printers of kinds for signers, container runtimes and definitions.
func machinery(resource string) (Printer, bool) {
	switch resource {
	case "certificatesigningrequests.certificates.k8s.io":
		spec := certificatesv1beta1.CertificateSigningRequestSpec{} // of v1beta1, as upstream
		return of(requestCells, name(), age(), str("SignerName", doc(spec, "signerName")), str("Requestor", doc(spec, "request")),
			str("RequestedDuration", doc(spec, "expirationSeconds")),
			str("Condition", doc(certificatesv1beta1.CertificateSigningRequestStatus{}, "conditions"))), true
	case "clustertrustbundles.certificates.k8s.io":
		return of(func(o *certificatesv1.ClusterTrustBundle, r row) []any {
			return []any{r.name, orNone(o.Spec.SignerName)}
		},
			name(), str("SignerName", doc(certificatesv1.ClusterTrustBundleSpec{}, "signerName"))), true
	case "podcertificaterequests.certificates.k8s.io":
		spec := certificatesv1.PodCertificateRequestSpec{}
		return of(podRequestCells, name(), str("PodName", doc(spec, "podName")), str("ServiceAccountName", doc(spec, "serviceAccountName")),
			str("NodeName", doc(spec, "nodeName")), str("SignerName", doc(spec, "signerName")),
			str("State", "Is the request Pending, Issued, Denied, or Failed?"),
			str("UnverifiedUserAnnotations", doc(spec, "unverifiedUserAnnotations"))), true
	case "storageversionmigrations.storagemigration.k8s.io":
		named := name()
		named.Format = "" // as upstream
		return of(migrationCells, named, str("Resource", "GroupResource to migrate"), str("Status", "Status of the migration")), true
	case "runtimeclasses.node.k8s.io":
		// Upstream looks the description up where there is none.
		return of(func(o *nodev1.RuntimeClass, r row) []any { return []any{r.name, o.Handler, r.age} }, name(), str("Handler", ""), age()), true
	case "customresourcedefinitions.apiextensions.k8s.io":
		return of(definitionCells, append(
			[]column{name(), str("Scope", "Cluster/Namespaced"), str("Versions", "Served versions"), createdAt()[1]},
			wide(str("Group", "API group"), str("Kind", "CustomResource kind"), str("ShortNames", "Short names"),
				boolean("Established", "Established status"))...)...), true
	}
	return Printer{}, false
}

func definitionCells(o *apiextensionsv1.CustomResourceDefinition, r row) []any {
	var served []string
	for _, v := range o.Spec.Versions {
		switch {
		case v.Served && v.Storage:
			served = append(served, v.Name+"(storage)")
		case v.Served:
			served = append(served, v.Name)
		}
	}
	slices.Sort(served)
	established := slices.ContainsFunc(o.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	return []any{
		r.name, string(o.Spec.Scope), strings.Join(served, ","), stamp(r.created), o.Spec.Group, o.Spec.Names.Kind,
		strings.Join(o.Spec.Names.ShortNames, ","), established,
	}
}

func requestCells(o *certificatesv1.CertificateSigningRequest, r row) []any {
	lasts := "<none>"
	if s := o.Spec.ExpirationSeconds; s != nil {
		lasts = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{r.name, r.age, orNone(o.Spec.SignerName), o.Spec.Username, lasts, requestState(o)}
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

func podRequestCells(o *certificatesv1.PodCertificateRequest, r row) []any {
	state := "Pending"
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			state = c.Type
		}
	}
	return []any{
		r.name, o.Spec.PodName, o.Spec.ServiceAccountName, string(o.Spec.NodeName), o.Spec.SignerName, state,
		labels.FormatLabels(o.Spec.UnverifiedUserAnnotations),
	}
}

func migrationCells(o *migrationv1.StorageVersionMigration, r row) []any {
	state := "Unknown"
	for _, c := range o.Status.Conditions {
		known := c.Type == string(migrationv1.MigrationRunning) || c.Type == string(migrationv1.MigrationFailed) ||
			c.Type == string(migrationv1.MigrationSucceeded)
		if known && c.Status == metav1.ConditionTrue {
			state = c.Type
		}
	}
	return []any{r.name, o.Spec.Resource.String(), state}
}
