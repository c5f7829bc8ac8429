package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// ofRequests is writes of CertificateSigningRequests.
func ofRequests(subresource string, op upstream.Operation) []plugins.Concern {
	return []plugins.Concern{{
		Resource:    kinds.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"},
		Subresource: subresource, Operations: []upstream.Operation{op},
	}}
}

// CertificateApproval is upstream's plugin of this name: who approves a request must be allowed to "approve" for its
// signer.
func CertificateApproval(authorizer auth.Authorizer) plugins.Plugin {
	return plugins.Plugin{
		Name: "CertificateApproval", Concerns: ofRequests("approval", upstream.Update), Waits: true, // the authorizer may
		Validate: func(ctx context.Context, w *plugins.Write) error {
			var old certificatesv1.CertificateSigningRequest
			if err := plugins.As(w.Old, &old); err != nil {
				return err
			}
			return permitted(ctx, authorizer, w, "approve", old.Spec.SignerName)
		},
	}
}

// CertificateSigning is upstream's plugin of this name: who writes a certificate, or the conditions, of a request must be
// allowed to "sign" for its signer.
func CertificateSigning(authorizer auth.Authorizer) plugins.Plugin {
	return plugins.Plugin{
		Name: "CertificateSigning", Concerns: ofRequests("status", upstream.Update), Waits: true, // the authorizer may
		Validate: func(ctx context.Context, w *plugins.Write) error {
			var now, old certificatesv1.CertificateSigningRequest
			if err := errors.Join(plugins.As(w.Object, &now), plugins.As(w.Old, &old)); err != nil {
				return err
			}
			if slices.Equal(now.Status.Certificate, old.Status.Certificate) &&
				equality.Semantic.DeepEqual(now.Status.Conditions, old.Status.Conditions) {
				return nil
			}
			return permitted(ctx, authorizer, w, "sign", old.Spec.SignerName)
		},
	}
}

// permitted returns 403 unless the caller may use a verb for a signer, that of the old object: an update may change it.
func permitted(ctx context.Context, authorizer auth.Authorizer, w *plugins.Write, verb, signer string) error {
	if may(ctx, authorizer, w.GetUserInfo(), verb, signer) {
		return nil
	}
	return upstream.NewForbidden(w, fmt.Errorf("user not permitted to %s requests with signerName %q", verb, signer))
}

// CertificateSubjectRestriction is upstream's plugin of this name: nobody requests a client certificate of
// system:masters.
func CertificateSubjectRestriction() plugins.Plugin {
	return plugins.Plugin{
		Name: "CertificateSubjectRestriction", Concerns: ofRequests("", upstream.Create),
		Validate: func(_ context.Context, w *plugins.Write) error {
			var now certificatesv1.CertificateSigningRequest
			if err := plugins.As(w.Object, &now); err != nil {
				return err
			}
			if err := restricted(&now); err != nil {
				return upstream.NewForbidden(w, err)
			}
			return nil
		},
	}
}

func restricted(o *certificatesv1.CertificateSigningRequest) error {
	if o.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	block, _ := pem.Decode(o.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("failed to parse CSR: %w", err)
	}
	if slices.Contains(request.Subject.Organization, user.SystemPrivilegedGroup) {
		return fmt.Errorf("use of %s signer with system:masters group is not allowed",
			certificatesv1.KubeAPIServerClientSignerName)
	}
	return nil
}
