package admissionregistration

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewValidatingBinding validates a new ValidatingAdmissionPolicyBinding.
func validateNewValidatingBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	return append(validatingBinding(o), notStatic(o.Name)...)
}

// validateValidatingBindingUpdate validates the change of a ValidatingAdmissionPolicyBinding to o.
func validateValidatingBindingUpdate(o, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	return validatingBinding(o)
}

func validatingBinding(o *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := binding(o.Spec.PolicyName, o.Spec.ParamRef, o.Spec.MatchResources)
	return append(errs, actions(check.Spec("validationActions"), o.Spec.ValidationActions)...)
}

// validateNewMutatingBinding validates a new MutatingAdmissionPolicyBinding.
func validateNewMutatingBinding(o *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	return append(mutatingBinding(o), notStatic(o.Name)...)
}

// validateMutatingBindingUpdate validates the change of a MutatingAdmissionPolicyBinding to o.
func validateMutatingBindingUpdate(o, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	return mutatingBinding(o)
}

func mutatingBinding(o *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := binding(o.Spec.PolicyName, o.Spec.ParamRef, o.Spec.MatchResources)
	if o.Spec.MatchResources == nil {
		return errs
	}
	return append(errs, mutable(check.Spec("matchResources"), o.Spec.MatchResources.ResourceRules)...)
}

// binding checks what bindings of both kinds have.
func binding(policy string, params *admissionv1.ParamRef, match *admissionv1.MatchResources) field.ErrorList {
	errs := check.Required(check.Spec(), "policyName", policy, func(name string) []string {
		return apivalidation.NameIsDNSSubdomain(name, false)
	})
	errs = append(errs, checkParamRef(check.Spec("paramRef"), params)...)
	return append(errs, checkMatchResources(check.Spec("matchResources"), match)...)
}

func checkParamRef(at *field.Path, r *admissionv1.ParamRef) field.ErrorList {
	if r == nil {
		return nil
	}
	const both = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		errs = append(errs, check.Invalid(at.Child("name"), r.Name, content.IsPathSegmentName(r.Name))...)
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(at.Child("name"), both))
		}
	}
	if r.Selector != nil {
		errs = append(errs, selector(at.Child("selector"), r.Selector, true)...)
		if r.Name != "" {
			errs = append(errs, field.Forbidden(at.Child("selector"), both))
		}
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(at, "one of name or selector must be specified"))
	}
	var action admissionv1.ParameterNotFoundActionType
	if r.ParameterNotFoundAction != nil {
		action = *r.ParameterNotFoundAction
	}
	return append(errs, check.OneOf(at, "parameterNotFoundAction", action, admissionv1.DenyAction, admissionv1.AllowAction)...)
}

// actions checks what a binding does about objects that its policy refuses.
func actions(at *field.Path, all []admissionv1.ValidationAction) field.ErrorList {
	if len(all) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	seen := map[admissionv1.ValidationAction]bool{}
	for i, action := range all {
		errs = append(errs, check.Known(at.Index(i), "", action, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)...)
		if seen[action] {
			errs = append(errs, field.Duplicate(at.Index(i), action))
		}
		seen[action] = true
	}
	if seen[admissionv1.Deny] && seen[admissionv1.Warn] {
		errs = append(errs, field.Invalid(at, all, "must not contain both Deny and Warn (repeating the same validation failure "+
			"information in the API response and headers serves no purpose)"))
	}
	return errs
}

// validateValidatingPolicyStatus validates a new status of a ValidatingAdmissionPolicy.
func validateValidatingPolicyStatus(o, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	at := field.NewPath("status")
	var errs field.ErrorList
	if o.Status.TypeChecking != nil {
		for i, w := range o.Status.TypeChecking.ExpressionWarnings {
			at := at.Child("typeChecking", "expressionWarnings").Index(i)
			errs = append(errs, check.Required(at, "warning", w.Warning, nil)...)
			errs = append(errs, fieldRef(at.Child("fieldRef"), strings.TrimSpace(w.FieldRef))...)
		}
	}
	return append(errs, metavalidation.ValidateConditions(o.Status.Conditions, at.Child("conditions"))...)
}

func fieldRef(at *field.Path, ref string) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(at, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
