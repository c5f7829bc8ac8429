package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// The conditions that end a request, of which it has at most one.
const (
	issued = certificatesv1.PodCertificateRequestConditionTypeIssued
	denied = certificatesv1.PodCertificateRequestConditionTypeDenied
	failed = certificatesv1.PodCertificateRequestConditionTypeFailed
)

// validatePodCertificateRequestUpdate validates the change of a PodCertificateRequest: its signer
// decides about it once and for all.
func validatePodCertificateRequestUpdate(o, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	errs := check.Unchanged(nil, "spec", o.Spec, old.Spec)
	if equality.Semantic.DeepEqual(o.Status, old.Status) {
		return errs
	}
	now, bad := outcome(o.Status.Conditions)
	bad = append(bad, metavalidation.ValidateConditions(o.Status.Conditions, field.NewPath("status", "conditions"))...)
	if len(bad) > 0 {
		return append(errs, bad...)
	}
	was, _ := outcome(old.Status.Conditions)
	fixed := func(why string) field.ErrorList {
		return append(errs, field.Invalid(field.NewPath("status"), field.OmitValueType{}, why))
	}
	switch {
	case was != "":
		return fixed("immutable after PodCertificateRequest is issued, denied, or failed")
	case now == issued:
		return append(errs, checkIssued(o)...)
	case now == "":
		return fixed(`status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	case !equality.Semantic.DeepEqual(o.Status, certificatesv1.PodCertificateRequestStatus{Conditions: o.Status.Conditions}):
		return fixed("non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	}
	return errs
}

// outcome returns the condition that ends a request; "" while there is none.
func outcome(conditions []metav1.Condition) (string, field.ErrorList) {
	found, known := "", []string{issued, denied, failed}
	var errs field.ErrorList
	for i, c := range conditions {
		at := field.NewPath("status", "conditions", "["+strconv.Itoa(i)+"]") // with a dot, as upstream
		if unknown := check.Known(at, "type", c.Type, known...); len(unknown) > 0 {
			errs = append(errs, unknown...)
			continue
		}
		if found != "" {
			errs = append(errs,
				field.Invalid(at.Child("type"), c.Type,
					`There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		found = c.Type
		errs = append(errs, check.Known(at, "status", c.Status, metav1.ConditionTrue)...)
	}
	return found, errs
}

// checkIssued checks a certificate against its request, and the times that go with it.
func checkIssued(o *certificatesv1.PodCertificateRequest) field.ErrorList {
	const most = 100 << 10 // bytes: certificates.MaxCertificateChainSize
	chain := o.Status.CertificateChain
	at := field.NewPath("status", "certificateChain")
	wrong := func(why string) field.ErrorList { return field.ErrorList{field.Invalid(at, chain, why)} }
	if len(chain) > most {
		return field.ErrorList{field.TooLong(at, "", most)}
	}
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return wrong("issued certificate chain must contain at least one certificate")
	}
	if block.Type != "CERTIFICATE" {
		return wrong("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return wrong("leaf certificate does not parse as valid X.509")
	}
	errs := checkLeafNames(at, leaf)
	request, err := x509.ParseCertificateRequest(o.Spec.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(check.Spec("stubPKCS10Request"), field.OmitValueType{}, "must be a valid PKCS#10 CSR"))
	}
	key, compares := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if compares && !key.Equal(leaf.PublicKey) {
		return append(errs, wrong("leaf certificate was not issued to the requested public key")...)
	}
	errs = append(errs, checkTimes(o, leaf)...)
	if len(errs) > 0 {
		return errs
	}
	for {
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			return wrong("issued certificate chain must consist entirely of CERTFICATE PEM blocks")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return wrong("intermediate certificate does not parse as valid X.509")
		}
	}
}

// checkLeafNames checks the names in a certificate that its parser does not.
func checkLeafNames(at *field.Path, leaf *x509.Certificate) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(at, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(at, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

// checkTimes checks the times of a status against those of the certificate.
func checkTimes(o *certificatesv1.PodCertificateRequest, leaf *x509.Certificate) field.ErrorList {
	const skew, margin = 5 * time.Minute, 10 * time.Minute
	at, s := field.NewPath("status"), &o.Status
	var errs field.ErrorList
	for _, missing := range []struct {
		name, why string
		given     *metav1.Time
	}{
		{"notBefore", "must be present and consistent with the issued certificate", s.NotBefore},
		{"notAfter", "must be present and consistent with the issued certificate", s.NotAfter},
		{"beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]", s.BeginRefreshAt},
	} {
		if missing.given == nil {
			errs = append(errs, field.Required(at.Child(missing.name), missing.why))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	wrong := func(name string, value any, why string) field.ErrorList {
		return field.ErrorList{field.Invalid(at.Child(name), value, why)}
	}
	lifetime := leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case !s.NotBefore.Time.Equal(leaf.NotBefore):
		return wrong("notBefore", s.NotBefore.Time, "must be set to the NotBefore time encoded in the leaf certificate")
	case time.Since(s.NotBefore.Time).Abs() >= skew:
		return wrong("notBefore", s.NotBefore.Time, "must be set to within 5 minutes of kube-apiserver's current time")
	case !s.NotAfter.Time.Equal(leaf.NotAfter):
		return wrong("notAfter", s.NotAfter.Time, "must be set to the NotAfter time encoded in the leaf certificate")
	case lifetime < time.Hour:
		return wrong("certificateChain", lifetime.String(), "leaf certificate lifetime must be >= 1 hour")
	case o.Spec.MaxExpirationSeconds != nil && lifetime > time.Duration(*o.Spec.MaxExpirationSeconds)*time.Second:
		return wrong("certificateChain", lifetime.String(),
			fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", *o.Spec.MaxExpirationSeconds))
	case s.BeginRefreshAt.Time.Before(s.NotBefore.Add(margin)):
		return wrong("beginRefreshAt", s.BeginRefreshAt.Time, "must be at least 10 minutes after status.notBefore")
	case s.BeginRefreshAt.After(s.NotAfter.Add(-margin)):
		return wrong("beginRefreshAt", s.BeginRefreshAt.Time, "must be at least 10 minutes before status.notAfter")
	}
	return nil
}
