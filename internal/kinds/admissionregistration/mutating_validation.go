package admissionregistration

import (
	"fmt"
	"iter"
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewMutatingPolicy validates a new MutatingAdmissionPolicy.
func validateNewMutatingPolicy(o *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	return append(mutating(o, nil), notStatic(o.Name)...)
}

// validateMutatingPolicyUpdate validates the change of a MutatingAdmissionPolicy from old to o.
func validateMutatingPolicyUpdate(o, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	return mutating(o, old)
}

// mutatingTexts yields the expressions of a policy.
func mutatingTexts(s *admissionv1.MutatingAdmissionPolicySpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		on := true
		for text := range textsOf(s.MatchConditions) {
			on = on && yield(text)
		}
		for i := range s.Variables {
			on = on && yield(s.Variables[i].Expression)
		}
		for _, m := range s.Mutations {
			on = on && (m.ApplyConfiguration == nil || yield(m.ApplyConfiguration.Expression))
			on = on && (m.JSONPatch == nil || yield(m.JSONPatch.Expression))
		}
	}
}

// mutating checks a policy; old is nil for a creation.
func mutating(o, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	s, at := &o.Spec, check.Spec()
	if errs := bounded(at, mutatingTexts(s)); errs != nil {
		return errs
	}
	with, err := withVariables()
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("make a compiler: %w", err))}
	}
	p := &program{policy: with, params: s.ParamKind != nil}
	sameConditions := false
	if old != nil {
		p.stored = set(mutatingTexts(&old.Spec))
		sameConditions = equality.Semantic.DeepEqual(s.ParamKind, old.Spec.ParamKind) &&
			equality.Semantic.DeepEqual(s.MatchConditions, old.Spec.MatchConditions)
	}
	errs := policyHead(at, s.FailurePolicy, s.ParamKind, s.MatchConstraints)
	if s.MatchConstraints != nil {
		errs = append(errs, mutable(at.Child("matchConstraints"), s.MatchConstraints.ResourceRules)...)
	}
	if !sameConditions {
		errs = append(errs, p.conditions(at.Child("matchConditions"), s.MatchConditions)...)
	}
	errs = append(errs, p.variables(at.Child("variables"), s.Variables)...)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		errs = append(errs, p.mutation(at.Child("mutations").Index(i), &s.Mutations[i])...)
	}
	return append(errs, check.OneOf(at, "reinvocationPolicy", s.ReinvocationPolicy,
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
}

// mutation checks one mutation of a policy: it has what its type says, and nothing else.
func (p *program) mutation(at *field.Path, m *admissionv1.Mutation) field.ErrorList {
	apply, patched := at.Child("applyConfiguration"), at.Child("jsonPatch")
	var errs field.ErrorList
	switch m.PatchType {
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(patched, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, p.patch(patched, m.JSONPatch.Expression, (&patch.JSONPatchCondition{}).ReturnTypes())...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs,
				p.patch(apply, m.ApplyConfiguration.Expression, (&patch.ApplyConfigurationCondition{}).ReturnTypes())...)
		}
		if m.JSONPatch != nil {
			errs = append(errs,
				field.Invalid(patched, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		return check.OneOf(at, "patchType", m.PatchType, admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
	}
	return errs
}

// patch checks the expression of a mutation.
func (p *program) patch(at *field.Path, text string, types []*celgo.Type) field.ErrorList {
	text = strings.TrimSpace(text)
	if text == "" {
		return field.ErrorList{field.Required(at.Child("expression"), "")}
	}
	given := admissioncel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true, HasPatchTypes: true}
	return p.compile(at.Child("expression"), p.policy, expression{text: text, types: types}, given)
}
