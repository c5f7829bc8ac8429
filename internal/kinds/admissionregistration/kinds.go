package builtin

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/admission"
	"github.com/gapless-io/gapless/internal/kinds/builtin/warnings"
)

// admissionKinds are the webhooks and the policies that have a say in writes.
func admissionKinds() []*kinds.Resource {
	const group = "admissionregistration.k8s.io"
	extensions := []string{"api-extensions"}
	return []*kinds.Resource{
		kind(row{
			group: group, version: "v1", kind: "MutatingAdmissionPolicy", plural: "mutatingadmissionpolicies", categories: extensions,
			cluster: true, needsVersion: true, defaults: defaults.AdmissionPolicy,
		}, rules[*admissionv1.MutatingAdmissionPolicy]{create: admission.NewMutatingPolicy, update: admission.MutatingPolicyUpdate, warn: warnings.MutatingPolicy}),
		kind(row{
			group: group, version: "v1", kind: "MutatingAdmissionPolicyBinding", categories: extensions,
			cluster: true, needsVersion: true, defaults: defaults.AdmissionBinding,
		}, rules[*admissionv1.MutatingAdmissionPolicyBinding]{create: admission.NewMutatingBinding, update: admission.MutatingBindingUpdate, warn: warnings.MutatingBinding}),
		kind(row{
			group: group, version: "v1", kind: "MutatingWebhookConfiguration", categories: extensions,
			cluster: true, needsVersion: true, defaults: defaults.MutatingWebhooks,
		}, rules[*admissionv1.MutatingWebhookConfiguration]{create: admission.NewMutatingWebhooks, update: admission.MutatingWebhooksUpdate, warn: warnings.MutatingWebhooks}),
		kind(row{
			group: group, version: "v1", kind: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", categories: extensions,
			cluster: true, status: true, needsVersion: true, defaults: defaults.AdmissionPolicy,
		}, rules[*admissionv1.ValidatingAdmissionPolicy]{
			create: admission.NewValidatingPolicy, update: admission.ValidatingPolicyUpdate, status: admission.ValidatingPolicyStatus,
			warn: warnings.ValidatingPolicy, warnStatus: warnings.ValidatingPolicy,
		}),
		kind(row{
			group: group, version: "v1", kind: "ValidatingAdmissionPolicyBinding", categories: extensions,
			cluster: true, needsVersion: true, defaults: defaults.AdmissionBinding,
		}, rules[*admissionv1.ValidatingAdmissionPolicyBinding]{create: admission.NewValidatingBinding, update: admission.ValidatingBindingUpdate, warn: warnings.ValidatingBinding}),
		kind(row{
			group: group, version: "v1", kind: "ValidatingWebhookConfiguration", categories: extensions,
			cluster: true, needsVersion: true, defaults: defaults.ValidatingWebhooks,
		}, rules[*admissionv1.ValidatingWebhookConfiguration]{create: admission.NewValidatingWebhooks, update: admission.ValidatingWebhooksUpdate, warn: warnings.ValidatingWebhooks}),
	}
}
