package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// omitted stands for values that errors do not repeat.
const omitted = "<value omitted>"

// validateNewTrustBundle validates a new ClusterTrustBundle.
func validateNewTrustBundle(o *certificatesv1.ClusterTrustBundle) field.ErrorList {
	return append(checkTrustBundle(o), checkAnchors(o.Spec.TrustBundle)...)
}

// validateTrustBundleUpdate validates the change of a ClusterTrustBundle from old to o. An
// unchanged bundle is not parsed again.
func validateTrustBundleUpdate(o, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	errs := checkTrustBundle(o)
	if o.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, checkAnchors(o.Spec.TrustBundle)...)
	}
	return append(errs, check.Unchanged(check.Spec(), "signerName", o.Spec.SignerName, old.Spec.SignerName)...)
}

// checkTrustBundle checks the signer of a bundle, and the name, which begins with it.
func checkTrustBundle(o *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var errs field.ErrorList
	signer, at := o.Spec.SignerName, field.NewPath("metadata")
	if signer != "" {
		errs = checkSigner(check.Spec("signerName"), signer)
	}
	if o.Name != "" {
		errs = append(errs, check.Invalid(at.Child("name"), o.Name, bundleName(signer, o.Name))...)
	}
	if prefix := o.GenerateName; prefix != "" {
		// The name goes on behind a dash or a dot.
		errs = append(errs, check.Invalid(at.Child("generateName"), prefix, bundleName(signer, prefix+"a"))...)
	}
	return errs
}

// bundleName returns the problems of the name of a bundle.
func bundleName(signer, name string) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return validation.IsDNS1123Subdomain(name)
	}
	prefix := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, has := strings.CutPrefix(name, prefix)
	if !has {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)}
	}
	return validation.IsDNS1123Subdomain(rest)
}

// checkAnchors checks the certificates of a bundle: each is that of a CA, and there once.
func checkAnchors(bundle string) field.ErrorList {
	const most = 1 << 20 // bytes: certificates.MaxTrustBundleSize
	at := check.Spec("trustBundle")
	if len(bundle) > most {
		return field.ErrorList{field.TooLong(at, "", most)}
	}
	var errs field.ErrorList
	found := map[string][]int{}
	block, rest := pem.Decode([]byte(bundle))
	for i := 0; block != nil; i++ {
		if why := checkAnchor(block); why != "" {
			errs = append(errs, field.Invalid(at, omitted, fmt.Sprintf("entry %d %s", i, why)))
		} else {
			found[string(block.Bytes)] = append(found[string(block.Bytes)], i)
		}
		block, rest = pem.Decode(rest)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(found) == 0 {
		errs = append(errs, field.Invalid(at, omitted, "at least one trust anchor must be provided"))
	}
	for _, places := range found {
		if len(places) > 1 {
			errs = append(errs, field.Invalid(at, omitted, fmt.Sprintf("duplicate trust anchor (indices %v)", places)))
		}
	}
	return errs
}

// checkAnchor says what is wrong with a certificate of a bundle; "" for nothing.
func checkAnchor(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) > 0 {
		return "has PEM block headers"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !cert.IsCA:
		return "does not have the CA bit set"
	case !cert.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}
