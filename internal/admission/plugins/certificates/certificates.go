// Package certificates has admission plugins for certificate signing requests, and for what is trusted.
package certificates

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// ClusterTrustBundleAttest is upstream's plugin of this name: who writes a ClusterTrustBundle of a signer must be allowed
// to "attest" for it.
func ClusterTrustBundleAttest(authorizer auth.Authorizer) plugins.Plugin {
	bundles := kinds.GroupResource{Group: certificatesv1.GroupName, Resource: "clustertrustbundles"}
	return plugins.Plugin{
		Name:     "ClusterTrustBundleAttest",
		Waits:    true, // the authorizer may
		Concerns: []plugins.Concern{{Resource: bundles, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
		Validate: func(ctx context.Context, w *plugins.Write) error {
			spec, _ := w.Object.Object["spec"].(map[string]any)
			signer := plugins.Text(spec, "signerName")
			if signer == "" || w.Old != nil && onlyCollected(w.Object, w.Old) ||
				may(ctx, authorizer, w.GetUserInfo(), "attest", signer) {
				return nil
			}
			return upstream.NewForbidden(w, fmt.Errorf("user not permitted to attest for signerName %q", signer))
		},
	}
}

// may asks for a verb on the signer, and on all signers of its domain: "example.org/*" (kubernetes pkg/certauthorization).
func may(ctx context.Context, authorizer auth.Authorizer, u user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		if authorizer.Decide(ctx, u, auth.Attributes{
			Verb: verb, Version: "*", Name: name,
			Resource: kinds.GroupResource{Group: certificatesv1.GroupName, Resource: "signers"},
		}).Allowed {
			return true
		}
	}
	return false
}

// onlyCollected reports whether nothing but what a garbage collector writes differs.
func onlyCollected(o, old *unstructured.Unstructured) bool {
	o, old = o.DeepCopy(), old.DeepCopy()
	for _, u := range []*unstructured.Unstructured{o, old} {
		u.SetOwnerReferences(nil)
		u.SetFinalizers(nil)
		u.SetManagedFields(nil)
	}
	return equality.Semantic.DeepEqual(o.Object, old.Object)
}
