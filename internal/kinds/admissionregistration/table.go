package printers

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// admission has the printers of webhooks, policies and bindings of policies.
func admission(resource string) (Printer, bool) {
	hooks := integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration")
	params := str("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy")
	bound := []column{
		name(), str("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		str("ParamRef", "ParamRef indicates the param resource which sets the configuration param"), age(),
	}
	switch resource {
	case "mutatingwebhookconfigurations.admissionregistration.k8s.io":
		return of(func(o *admissionv1.MutatingWebhookConfiguration, r row) []any {
			return []any{r.name, int64(len(o.Webhooks)), r.age}
		}, name(), hooks, age()), true
	case "validatingwebhookconfigurations.admissionregistration.k8s.io":
		return of(func(o *admissionv1.ValidatingWebhookConfiguration, r row) []any {
			return []any{r.name, int64(len(o.Webhooks)), r.age}
		}, name(), hooks, age()), true
	case "mutatingadmissionpolicies.admissionregistration.k8s.io":
		return of(func(o *admissionv1.MutatingAdmissionPolicy, r row) []any {
			return []any{r.name, int64(len(o.Spec.Mutations)), paramKind(o.Spec.ParamKind), r.age}
		}, name(), integer("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"), params, age()), true
	case "validatingadmissionpolicies.admissionregistration.k8s.io":
		return of(func(o *admissionv1.ValidatingAdmissionPolicy, r row) []any {
			return []any{r.name, int64(len(o.Spec.Validations)), paramKind(o.Spec.ParamKind), r.age}
		}, name(), integer("Validations", "Validations indicates the number of validation rules defined in this configuration"), params, age()), true
	case "mutatingadmissionpolicybindings.admissionregistration.k8s.io":
		return of(func(o *admissionv1.MutatingAdmissionPolicyBinding, r row) []any {
			return []any{r.name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), r.age}
		}, bound...), true
	case "validatingadmissionpolicybindings.admissionregistration.k8s.io":
		return of(func(o *admissionv1.ValidatingAdmissionPolicyBinding, r row) []any {
			return []any{r.name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), r.age}
		}, bound...), true
	}
	return Printer{}, false
}

func paramKind(k *admissionv1.ParamKind) string {
	if k == nil {
		return "<unset>"
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRef(r *admissionv1.ParamRef) string {
	switch {
	case r != nil && r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r != nil && r.Name != "":
		return "*/" + r.Name // whether the kind has namespaces is not known here
	case r != nil && r.Selector != nil:
		return r.Selector.String() // as upstream
	}
	return "<unset>"
}
