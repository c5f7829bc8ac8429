// Package admissionregistration has the kinds of the group admissionregistration.k8s.io: the webhooks
// and the policies that have a say in writes.
//
// A rule that is for updates accepts what older releases have accepted, as long as it stays. An expression is
// a text in CEL, which the rules compile as it is compiled when a request is judged; what one object may make
// the compiler do is bounded (maxExpressions, maxExpressionBytes, maxExpressionWork). The rules and their
// texts are upstream's (pkg/apis/admissionregistration/validation of Kubernetes 1.37), the bounds are not.
package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
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
			Create: validateNewMutatingPolicy, Update: validateMutatingPolicyUpdate, Warn: warnMutatingPolicy,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultBinding,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, Table: mutatingBindingTable(),
		}, gokind.Rules[*admissionv1.MutatingAdmissionPolicyBinding]{
			Create: validateNewMutatingBinding, Update: validateMutatingBindingUpdate, Warn: warnMutatingBinding,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultMutatingWebhooks,
			Generation: kinds.GenerationOfContent, AnyFinalizers: true, Table: mutatingWebhooksTable(),
		}, gokind.Rules[*admissionv1.MutatingWebhookConfiguration]{
			Create: validateNewMutatingWebhooks, Update: validateMutatingWebhooksUpdate, Warn: warnMutatingWebhooks,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy",
			Plural: "validatingadmissionpolicies", Categories: extensions,
			Cluster: true, Status: true, NeedsVersion: true, Defaults: defaultPolicy,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, StatusKeeps: gokind.KeptMetadata(),
			Table: validatingPolicyTable(),
		}, gokind.Rules[*admissionv1.ValidatingAdmissionPolicy]{
			Create: validateNewValidatingPolicy, Update: validateValidatingPolicyUpdate,
			Status: validateValidatingPolicyStatus,
			Warn:   warnValidatingPolicy, WarnStatus: warnValidatingPolicy,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding",
			Categories: extensions,
			Cluster:    true, NeedsVersion: true, Defaults: defaultBinding,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, Table: validatingBindingTable(),
		}, gokind.Rules[*admissionv1.ValidatingAdmissionPolicyBinding]{
			Create: validateNewValidatingBinding, Update: validateValidatingBindingUpdate, Warn: warnValidatingBinding,
		}),
		gokind.Of(gokind.Row{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration", Categories: extensions,
			Cluster: true, NeedsVersion: true, Defaults: defaultValidatingWebhooks,
			Generation: kinds.GenerationOfContent, AnyFinalizers: true, Table: validatingWebhooksTable(),
		}, gokind.Rules[*admissionv1.ValidatingWebhookConfiguration]{
			Create: validateNewValidatingWebhooks, Update: validateValidatingWebhooksUpdate, Warn: warnValidatingWebhooks,
		}),
	}
}
