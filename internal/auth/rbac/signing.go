package rbac

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Signing refuses the approval and the signature of a CertificateSigningRequest to users who
// may not "approve" or "sign" for its signer, and requests for certificates of
// system:masters (kubernetes plugin/pkg/admission/certificates: CertificateApproval,
// CertificateSigning, CertificateSubjectRestriction). It is an admission plugin.
type Signing struct {
	Authorizer auth.Authorizer
}

// Handles implements admission.Plugin.
func (Signing) Handles(r *kinds.Resource, subresource string, op admission.Operation) bool {
	return handlesRequests(r.GR(), subresource, op)
}

func handlesRequests(gr kinds.GroupResource, subresource string, op admission.Operation) bool {
	if gr.Group != certificatesv1.GroupName || gr.Resource != "certificatesigningrequests" {
		return false
	}
	return op == admission.Create && subresource == "" ||
		op == admission.Update && (subresource == "approval" || subresource == "status")
}

// Waits implements admission.Plugin: the authorizer may.
func (Signing) Waits(*kinds.Resource, string, admission.Operation) bool { return true }

// Admit implements admission.Plugin.
func (Signing) Admit(context.Context, admission.Attributes, func() error) error { return nil }

// Validate implements admission.Plugin. Errors: 403.
func (s Signing) Validate(ctx context.Context, a admission.Attributes) error {
	u := a.GetUserInfo()
	if u == nil || !handlesRequests(a.GetResource().GroupResource(), a.GetSubresource(), a.GetOperation()) {
		return nil // the server itself asks nobody
	}
	o, err := signingRequest(a.GetObject())
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Create {
		return restricted(a, o)
	}
	old, err := signingRequest(a.GetOldObject())
	if err != nil {
		return err
	}
	verb := "approve"
	if a.GetSubresource() == "status" {
		verb = "sign"
		if slices.Equal(o.Status.Certificate, old.Status.Certificate) &&
			equality.Semantic.DeepEqual(o.Status.Conditions, old.Status.Conditions) {
			return nil
		}
	}
	// The old object counts: the update may change the name of the signer.
	if signer := old.Spec.SignerName; !s.may(ctx, u, verb, signer) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to %s requests with signerName %q", verb, signer))
	}
	return nil
}

// may asks for the signer, and for all signers of its domain: "example.org/*" (kubernetes
// pkg/certauthorization).
func (s Signing) may(ctx context.Context, u user.Info, verb, signer string) bool {
	wanted := auth.Attributes{
		Verb: verb, Resource: kinds.GroupResource{Group: certificatesv1.GroupName, Resource: "signers"}, Version: "*",
		Name: signer,
	}
	if s.Authorizer.Decide(ctx, u, wanted).Allowed {
		return true
	}
	domain, _, _ := strings.Cut(signer, "/")
	wanted.Name = domain + "/*"
	return s.Authorizer.Decide(ctx, u, wanted).Allowed
}

// restricted refuses a client certificate for system:masters.
func restricted(a admission.Attributes, o *certificatesv1.CertificateSigningRequest) error {
	if o.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	block, _ := pem.Decode(o.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return admission.NewForbidden(a, errors.New("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"))
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(request.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a,
			fmt.Errorf("use of %s signer with system:masters group is not allowed", certificatesv1.KubeAPIServerClientSignerName))
	}
	return nil
}

func signingRequest(o any) (*certificatesv1.CertificateSigningRequest, error) {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		return nil, wire.Internal(fmt.Errorf("check a signing request: the object is a %T", o))
	}
	return decode[certificatesv1.CertificateSigningRequest](u)
}
