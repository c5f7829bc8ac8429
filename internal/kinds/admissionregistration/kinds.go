// Package admissionregistration has the kinds of the group admissionregistration.k8s.io: the webhooks
// and the policies that have a say in writes.
package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/admission"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	extensions := []string{"api-extensions"}
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy",
			Plural: "mutatingadmissionpolicies", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultPolicy,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, Table: mutatingPolicyTable(),
		}, gokind.Rules[*admissionv1.MutatingAdmissionPolicy]{
			Create: admission.NewMutatingPolicy, Update: admission.MutatingPolicyUpdate, Warn: warnMutatingPolicy,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultBinding,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, Table: mutatingBindingTable(),
		}, gokind.Rules[*admissionv1.MutatingAdmissionPolicyBinding]{
			Create: admission.NewMutatingBinding, Update: admission.MutatingBindingUpdate, Warn: warnMutatingBinding,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultMutatingWebhooks,
			Generation: kinds.GenerationOfContent, AnyFinalizers: true, Table: mutatingWebhooksTable(),
		}, gokind.Rules[*admissionv1.MutatingWebhookConfiguration]{
			Create: admission.NewMutatingWebhooks, Update: admission.MutatingWebhooksUpdate, Warn: warnMutatingWebhooks,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy",
			Plural: "validatingadmissionpolicies", Categories: extensions,
			Cluster: true, Status: true, NeedsVersion: true, Defaults: defaultPolicy,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, StatusKeeps: gokind.KeptMetadata(),
			Table: validatingPolicyTable(),
		}, gokind.Rules[*admissionv1.ValidatingAdmissionPolicy]{
			Create: admission.NewValidatingPolicy, Update: admission.ValidatingPolicyUpdate,
			Status: admission.ValidatingPolicyStatus,
			Warn:   warnValidatingPolicy, WarnStatus: warnValidatingPolicy,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding",
			Categories: extensions,
			Cluster:    true, NeedsVersion: true, Defaults: defaultBinding,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, Table: validatingBindingTable(),
		}, gokind.Rules[*admissionv1.ValidatingAdmissionPolicyBinding]{
			Create: admission.NewValidatingBinding, Update: admission.ValidatingBindingUpdate, Warn: warnValidatingBinding,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultValidatingWebhooks,
			Generation: kinds.GenerationOfContent, AnyFinalizers: true, Table: validatingWebhooksTable(),
		}, gokind.Rules[*admissionv1.ValidatingWebhookConfiguration]{
			Create: admission.NewValidatingWebhooks, Update: admission.ValidatingWebhooksUpdate, Warn: warnValidatingWebhooks,
		}),
	}
}
