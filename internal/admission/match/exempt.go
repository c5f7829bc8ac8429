package match

import (
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Reviews are the resources of questions about callers. Nobody is asked about them: whoever
// refused them would lock out the whole cluster (kubernetes pkg/kubeapiserver/admission/
// exclusion).
func Reviews() []kinds.GroupResource {
	const authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"
	return []kinds.GroupResource{
		{Group: authentication, Resource: "selfsubjectreviews"},
		{Group: authentication, Resource: "tokenreviews"},
		{Group: authorization, Resource: "localsubjectaccessreviews"},
		{Group: authorization, Resource: "selfsubjectaccessreviews"},
		{Group: authorization, Resource: "selfsubjectrulesreviews"},
		{Group: authorization, Resource: "subjectaccessreviews"},
	}
}

// group is that of all that configures admission.
const group = "admissionregistration.k8s.io"

// Policies are the resources of policies and of their bindings. No policy is asked about them:
// it could forbid its own repair (apiserver policy/generic isPolicyResource).
func Policies() []kinds.GroupResource {
	return []kinds.GroupResource{
		{Group: group, Resource: "validatingadmissionpolicies"},
		{Group: group, Resource: "validatingadmissionpolicybindings"},
		{Group: group, Resource: "mutatingadmissionpolicies"},
		{Group: group, Resource: "mutatingadmissionpolicybindings"},
	}
}

// Webhooks are the resources of webhook configurations, about which no webhook is asked, nor
// about policies (apiserver predicates/rules IsExemptAdmissionConfigurationResource).
func Webhooks() []kinds.GroupResource {
	return []kinds.GroupResource{
		{Group: group, Resource: "mutatingwebhookconfigurations"},
		{Group: group, Resource: "validatingwebhookconfigurations"},
	}
}

// ExemptFromPolicies reports whether no policy is asked about a resource.
func ExemptFromPolicies(gr kinds.GroupResource) bool {
	return slices.Contains(Policies(), gr) || slices.Contains(Reviews(), gr)
}

// ExemptFromWebhooks reports whether no webhook is asked about a resource.
func ExemptFromWebhooks(gr kinds.GroupResource) bool {
	return slices.Contains(Webhooks(), gr) || ExemptFromPolicies(gr)
}
