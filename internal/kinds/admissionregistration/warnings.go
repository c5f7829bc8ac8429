package admissionregistration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnMutatingWebhooks warns about a MutatingWebhookConfiguration.
func warnMutatingWebhooks(o, old *admissionv1.MutatingWebhookConfiguration) []string {
	var l warn.List
	reserved(&l, o.Name, old != nil)
	for i := range o.Webhooks {
		excluded(&l, i, o.Webhooks[i].Rules)
	}
	return l.Texts()
}

// warnValidatingWebhooks warns about a ValidatingWebhookConfiguration.
func warnValidatingWebhooks(o, old *admissionv1.ValidatingWebhookConfiguration) []string {
	var l warn.List
	reserved(&l, o.Name, old != nil)
	for i := range o.Webhooks {
		excluded(&l, i, o.Webhooks[i].Rules)
	}
	return l.Texts()
}

// warnMutatingPolicy warns about a MutatingAdmissionPolicy.
func warnMutatingPolicy(o, old *admissionv1.MutatingAdmissionPolicy) []string {
	var l warn.List
	reserved(&l, o.Name, old != nil)
	return l.Texts()
}

// warnMutatingBinding warns about a MutatingAdmissionPolicyBinding.
func warnMutatingBinding(o, old *admissionv1.MutatingAdmissionPolicyBinding) []string {
	var l warn.List
	reserved(&l, o.Name, old != nil)
	return l.Texts()
}

// warnValidatingPolicy warns about a ValidatingAdmissionPolicy, or a change of its status.
func warnValidatingPolicy(o, old *admissionv1.ValidatingAdmissionPolicy) []string {
	var l warn.List
	reserved(&l, o.Name, old != nil)
	return l.Texts()
}

// warnValidatingBinding warns about a ValidatingAdmissionPolicyBinding.
func warnValidatingBinding(o, old *admissionv1.ValidatingAdmissionPolicyBinding) []string {
	var l warn.List
	reserved(&l, o.Name, old != nil)
	return l.Texts()
}

// reserved warns about an update of an object whose name is for configurations in files; a
// creation is refused.
func reserved(l *warn.List, name string, update bool) {
	const static = ".static.k8s.io"
	if update && strings.HasSuffix(name, static) {
		l.Say(
			"metadata.name: names ending with %q are reserved for static manifest-based configurations and "+
				"cannot be managed via the API",
			static,
		)
	}
}

// excluded warns about rules of a webhook for resources that no webhook is asked about
// (pkg/kubeapiserver/admission/exclusion).
func excluded(l *warn.List, webhook int, rules []admissionv1.RuleWithOperations) {
	for i := range rules {
		rule := &rules[i]
		if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
			continue
		}
		groups, seen := map[string]bool{}, map[schema.GroupResource]bool{}
		for _, group := range rule.APIGroups {
			if group != "authentication.k8s.io" && group != "authorization.k8s.io" || groups[group] {
				continue
			}
			groups[group] = true
			for _, resource := range rule.Resources {
				gr := schema.GroupResource{Group: group, Resource: resource}
				if isExcluded(gr) && !seen[gr] {
					seen[gr] = true
					l.At(field.NewPath("webhooks").Index(webhook).Child("rules").Index(i),
						"%s is excluded from admission webhooks; this rule will have no effect", gr)
				}
			}
		}
	}
}

func isExcluded(gr schema.GroupResource) bool {
	switch gr.String() {
	case "selfsubjectreviews.authentication.k8s.io", "tokenreviews.authentication.k8s.io",
		"localsubjectaccessreviews.authorization.k8s.io", "selfsubjectaccessreviews.authorization.k8s.io",
		"selfsubjectrulesreviews.authorization.k8s.io", "subjectaccessreviews.authorization.k8s.io":
		return true
	}
	return false
}
