package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// The bounds of a request (pkg/apis/certificates/types.go).
const (
	minLifetime           = 60 * 60           // s
	maxLifetime           = 91 * 24 * 60 * 60 // s
	maxKubernetesLifetime = 24 * 60 * 60      // s, of the signers below kubernetes.io
	maxStubRequest        = 10 << 10          // bytes
	maxUID                = 128               // bytes
)

// validateNewPodCertificateRequest validates a new PodCertificateRequest.
func validateNewPodCertificateRequest(o *certificatesv1.PodCertificateRequest) field.ErrorList {
	spec := &o.Spec
	errs := checkSigner(check.Spec("signerName"), spec.SignerName)
	errs = append(errs, checkUserAnnotations(spec.UnverifiedUserAnnotations)...)
	for _, of := range []struct{ what, name, uid string }{
		{"pod", spec.PodName, string(spec.PodUID)},
		{"serviceAccount", spec.ServiceAccountName, string(spec.ServiceAccountUID)},
		{"node", string(spec.NodeName), string(spec.NodeUID)},
	} {
		errs = append(errs, check.Invalid(check.Spec(of.what+"Name"), of.name, validation.IsDNS1123Subdomain(of.name))...)
		if of.uid == "" {
			errs = append(errs, field.Invalid(check.Spec(of.what+"UID"), of.uid, "must not be empty"))
		}
		if len(of.uid) > maxUID {
			errs = append(errs, field.TooLong(check.Spec(of.what+"UID"), of.uid, maxUID))
		}
	}
	if spec.MaxExpirationSeconds == nil {
		return append(errs, field.Required(check.Spec("maxExpirationSeconds"), "must be set"))
	}
	longest := int32(maxLifetime)
	if host, _, _ := strings.Cut(spec.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
		longest = maxKubernetesLifetime
	}
	if n := *spec.MaxExpirationSeconds; n < minLifetime || n > longest {
		errs = append(errs,
			field.Invalid(check.Spec("maxExpirationSeconds"), n,
				fmt.Sprintf("must be in the range [%d, %d]", minLifetime, longest)))
	}
	if len(spec.StubPKCS10Request) == 0 {
		return append(errs,
			field.Invalid(check.Spec(), field.OmitValueType{},
				"exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return append(errs, checkStub(spec.StubPKCS10Request)...)
}

// checkUserAnnotations checks what a pod tells the signer.
func checkUserAnnotations(annotations map[string]string) field.ErrorList {
	at := check.Spec("unverifiedUserAnnotations")
	var errs field.ErrorList
	for key := range annotations {
		errs = append(errs, validation.IsDomainPrefixedKey(at, strings.ToLower(key))...)
	}
	if err := apivalidation.ValidateAnnotationsSize(annotations); err != nil {
		errs = append(errs, field.TooLong(at, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

// checkStub checks that a request holds a key of a supported type, and is signed with it.
func checkStub(stub []byte) field.ErrorList {
	at := check.Spec("stubPKCS10Request")
	if len(stub) > maxStubRequest {
		return field.ErrorList{field.TooLong(at, "", maxStubRequest)}
	}
	wrong := func(value any, why string) field.ErrorList { return field.ErrorList{field.Invalid(at, value, why)} }
	request, err := x509.ParseCertificateRequest(stub)
	if err != nil {
		return wrong(field.OmitValueType{}, "must be a valid PKCS#10 CSR")
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return wrong("curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return wrong(fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
	default:
		return wrong(field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	if err := request.CheckSignature(); err != nil {
		return wrong(field.OmitValueType{}, "invalid signature")
	}
	return nil
}
