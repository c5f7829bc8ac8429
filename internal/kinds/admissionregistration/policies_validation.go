package admissionregistration

import (
	"fmt"
	"iter"
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewValidatingPolicy validates a new ValidatingAdmissionPolicy.
func validateNewValidatingPolicy(o *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	return append(validating(o, nil), notStatic(o.Name)...)
}

// validateValidatingPolicyUpdate validates the change of a ValidatingAdmissionPolicy from old to o.
func validateValidatingPolicyUpdate(o, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	return validating(o, old)
}

// validatingTexts yields the expressions of a policy.
func validatingTexts(s *admissionv1.ValidatingAdmissionPolicySpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		on := true
		for text := range textsOf(s.MatchConditions) {
			on = on && yield(text)
		}
		for i := range s.Variables {
			on = on && yield(s.Variables[i].Expression)
		}
		for i := range s.Validations {
			on = on && yield(s.Validations[i].Expression)
			on = on && (s.Validations[i].MessageExpression == "" || yield(s.Validations[i].MessageExpression))
		}
		for i := range s.AuditAnnotations {
			on = on && yield(s.AuditAnnotations[i].ValueExpression)
		}
	}
}

// validating checks a policy; old is nil for a creation.
func validating(o, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	s, at := &o.Spec, check.Spec()
	if errs := bounded(at, validatingTexts(s)); errs != nil {
		return errs
	}
	p := &program{policy: alone(), params: s.ParamKind != nil}
	if len(s.Variables) > 0 {
		with, err := withVariables()
		if err != nil {
			return field.ErrorList{field.InternalError(at, fmt.Errorf("make a compiler: %w", err))}
		}
		p.policy = with
	}
	sameConditions := false
	if old != nil {
		p.stored = set(validatingTexts(&old.Spec))
		sameConditions = equality.Semantic.DeepEqual(s.ParamKind, old.Spec.ParamKind) &&
			equality.Semantic.DeepEqual(s.MatchConditions, old.Spec.MatchConditions)
	}
	errs := policyHead(at, s.FailurePolicy, s.ParamKind, s.MatchConstraints)
	if !sameConditions {
		errs = append(errs, p.conditions(at.Child("matchConditions"), s.MatchConditions)...)
	}
	errs = append(errs, p.variables(at.Child("variables"), s.Variables)...)
	if len(s.Validations)+len(s.AuditAnnotations) == 0 {
		const why = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(at.Child("validations"), why), field.Required(at.Child("auditAnnotations"), why))
	}
	for i := range s.Validations {
		errs = append(errs, p.validation(at.Child("validations").Index(i), &s.Validations[i])...)
	}
	return append(errs, p.annotations(at.Child("auditAnnotations"), o.Name, s.AuditAnnotations)...)
}

// policyHead checks what policies of both kinds have.
func policyHead(at *field.Path, failure *admissionv1.FailurePolicyType, params *admissionv1.ParamKind,
	match *admissionv1.MatchResources,
) field.ErrorList {
	var errs field.ErrorList
	if failure == nil {
		errs = append(errs, field.Required(at.Child("failurePolicy"), ""))
	}
	errs = append(errs, failurePolicy(at, failure)...)
	if params != nil {
		errs = append(errs, checkParamKind(at.Child("paramKind"), params)...)
	}
	if match == nil {
		return append(errs, field.Required(at.Child("matchConstraints"), ""))
	}
	errs = append(errs, checkMatchResources(at.Child("matchConstraints"), match)...)
	if len(match.ResourceRules) == 0 { // they provide the types
		errs = append(errs, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
	}
	return errs
}

func checkParamKind(at *field.Path, k *admissionv1.ParamKind) field.ErrorList {
	var errs field.ErrorList
	group, version := "", k.APIVersion
	if i := strings.Index(version, "/"); i >= 0 {
		group, version = version[:i], version[i+1:]
	}
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(at.Child("apiVersion"), ""))
	case strings.Contains(version, "/"):
		errs = append(errs,
			field.Invalid(at.Child("apiVersion"), k.APIVersion, fmt.Sprintf("unexpected GroupVersion string: %v", k.APIVersion)))
	default:
		if why := validation.IsDNS1123Subdomain(group); group != "" && len(why) > 0 {
			errs = append(errs, field.Invalid(at.Child("apiVersion"), group, strings.Join(why, ",")))
		}
		if version == "" {
			errs = append(errs, field.Invalid(at.Child("apiVersion"), k.APIVersion, "version must be specified"))
		} else if why := validation.IsDNS1035Label(version); len(why) > 0 {
			errs = append(errs, field.Invalid(at.Child("apiVersion"), version, strings.Join(why, ",")))
		}
	}
	if k.Kind == "" {
		errs = append(errs, field.Required(at.Child("kind"), ""))
	} else if why := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(why) > 0 {
		errs = append(errs,
			field.Invalid(at.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(why, ",")))
	}
	return errs
}

// validation checks one validation of a policy.
func (p *program) validation(at *field.Path, v *admissionv1.Validation) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		given := admissioncel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true}
		errs = append(errs,
			p.compile(at.Child("expression"), p.policy, expression{text: v.Expression, types: []*celgo.Type{celgo.BoolType}},
				given)...)
	}
	const empty = "must be non-empty if specified"
	switch text := v.MessageExpression; {
	case text == "":
	case strings.TrimSpace(text) == "":
		errs = append(errs, field.Invalid(at.Child("messageExpression"), text, empty))
	default:
		given := admissioncel.OptionalVariableDeclarations{HasParams: p.params}
		errs = append(errs,
			p.compile(at.Child("messageExpression"), p.policy, expression{text: text, types: []*celgo.Type{celgo.StringType}},
				given)...)
	}
	switch text := strings.TrimSpace(v.Message); {
	case v.Message != "" && text == "":
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, empty))
	case strings.ContainsAny(text, "\n\r"):
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, check.KnownIfSet(at, "reason", v.Reason,
		metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
}

// annotations checks the audit annotations of the policy with a name.
func (p *program) annotations(at *field.Path, policy string, all []admissionv1.AuditAnnotation) field.ErrorList {
	const most, longest = 20, 5 << 10 // upstream's, the second in bytes of an expression
	var errs field.ErrorList
	if len(all) > most {
		errs = append(errs, field.Invalid(at, all, fmt.Sprintf("must not have more than %d auditAnnotations", most)))
	}
	given := admissioncel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true}
	seen := map[string]bool{}
	for i, a := range all {
		at := at.Index(i)
		if policy == "" {
			errs = append(errs, field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			key := policy + "/" + a.Key
			errs = append(errs, check.Invalid(at.Child("key"), key, validation.IsQualifiedName(key))...)
		}
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			errs = append(errs, field.Required(at.Child("valueExpression"), "valueExpression is not specified"))
		case len(text) > longest:
			errs = append(errs,
				field.Required(at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", longest)))
		default:
			found := p.compile(at.Child("valueExpression"), p.policy,
				expression{text: text, types: []*celgo.Type{celgo.StringType, celgo.NullType}}, given)
			for _, e := range found {
				if e.Type == field.ErrorTypeInvalid {
					e.BadValue = a.ValueExpression
				}
			}
			errs = append(errs, found...)
		}
		if seen[a.Key] {
			errs = append(errs, field.Duplicate(at.Child("key"), a.Key))
		}
		seen[a.Key] = true
	}
	return errs
}
