package printers

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
