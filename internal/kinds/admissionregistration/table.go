package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func mutatingWebhooksTable() kinds.Table {
	return table.Of(func(o *admissionv1.MutatingWebhookConfiguration, r table.Meta) []any {
		return []any{r.Name, int64(len(o.Webhooks)), r.Age}
	}, webhookColumns()...)
}

func validatingWebhooksTable() kinds.Table {
	return table.Of(func(o *admissionv1.ValidatingWebhookConfiguration, r table.Meta) []any {
		return []any{r.Name, int64(len(o.Webhooks)), r.Age}
	}, webhookColumns()...)
}

func webhookColumns() []table.Column {
	return []table.Column{
		table.Name(),
		table.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"), table.Age(),
	}
}

func mutatingPolicyTable() kinds.Table {
	return table.Of(func(o *admissionv1.MutatingAdmissionPolicy, r table.Meta) []any {
		return []any{r.Name, int64(len(o.Spec.Mutations)), paramKind(o.Spec.ParamKind), r.Age}
	}, policyColumns("Mutations", "Mutation indicates the number of mutations rules defined in this configuration")...)
}

func validatingPolicyTable() kinds.Table {
	return table.Of(func(o *admissionv1.ValidatingAdmissionPolicy, r table.Meta) []any {
		return []any{r.Name, int64(len(o.Spec.Validations)), paramKind(o.Spec.ParamKind), r.Age}
	}, policyColumns("Validations", "Validations indicates the number of validation rules defined in this configuration")...)
}

// policyColumns are the columns of policies, of which one counts what they do.
func policyColumns(counted, about string) []table.Column {
	return []table.Column{
		table.Name(), table.Integer(counted, about),
		table.Str("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), table.Age(),
	}
}

func mutatingBindingTable() kinds.Table {
	return table.Of(func(o *admissionv1.MutatingAdmissionPolicyBinding, r table.Meta) []any {
		return []any{r.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), r.Age}
	}, bindingColumns()...)
}

func validatingBindingTable() kinds.Table {
	return table.Of(func(o *admissionv1.ValidatingAdmissionPolicyBinding, r table.Meta) []any {
		return []any{r.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), r.Age}
	}, bindingColumns()...)
}

func bindingColumns() []table.Column {
	return []table.Column{
		table.Name(), table.Str("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		table.Str("ParamRef", "ParamRef indicates the param resource which sets the configuration param"), table.Age(),
	}
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
