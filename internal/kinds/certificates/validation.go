package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateCertificateSigningRequest validates the request as it was sent; upstream has more rules
// for names of signers.
func validateCertificateSigningRequest(o *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	if err := checkRequestPEM(o.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(check.Spec("request"), o.Spec.Request, err.Error()))
	}
	if len(o.Spec.Usages) == 0 {
		errs = append(errs, field.Required(check.Spec("usages"), ""))
	}
	seen := map[certificatesv1.KeyUsage]bool{}
	for i, usage := range o.Spec.Usages {
		at := check.Spec("usages").Index(i)
		if !slices.Contains(keyUsages(), usage) {
			errs = append(errs, field.NotSupported(at, usage, keyUsages()))
		}
		if seen[usage] {
			errs = append(errs, field.Duplicate(at, usage))
		}
		seen[usage] = true
	}
	errs = append(errs, check.Required(check.Spec(), "signerName", o.Spec.SignerName, func(name string) []string {
		domain, path, found := strings.Cut(name, "/")
		if !found || path == "" {
			return []string{`must be a fully qualified domain and path of the form "example.com/signer-name"`}
		}
		return validation.IsDNS1123Subdomain(domain)
	})...)
	const shortest = 600 // pkg/apis/certificates/validation: 10 minutes
	if seconds := o.Spec.ExpirationSeconds; seconds != nil && *seconds < shortest {
		errs = append(errs,
			field.Invalid(check.Spec("expirationSeconds"), *seconds,
				"may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

func checkRequestPEM(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return fmt.Errorf("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

func keyUsages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{
		certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
		certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
		certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
		certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
		certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning,
		certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
	}
}
