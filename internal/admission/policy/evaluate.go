package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	celtypes "github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// decision is what became of one validation.
type decision struct {
	denied  bool
	failed  bool // it could not be evaluated: denied is what the failure policy says
	message string
	reason  metav1.StatusReason // "": Invalid
	elapsed time.Duration
}

// noted is what became of one audit annotation; both value and err are "" for one that is left
// out.
type noted struct {
	key, value, err string
	elapsed         time.Duration
}

// result is what a policy says with one parameter.
type result struct {
	decisions   []decision
	annotations []noted
}

// evaluation is a policy with one parameter.
type evaluation struct {
	matched
	view   *admission.VersionedAttributes
	params runtime.Object
}

// failing is the result of a policy that cannot be evaluated.
func (e *evaluation) failing(err error) result {
	return result{decisions: []decision{e.broken(err.Error())}}
}

// broken is the decision about a validation that cannot be evaluated.
func (e *evaluation) broken(text string) decision {
	return decision{denied: e.failure != admissionregistration.Ignore, failed: true, message: text}
}

// evaluate evaluates a policy with one parameter, within upstream's cost budget (apiserver
// policy/validating Validate).
func (v *validator) evaluate(r *request, e evaluation) result {
	if v.err != nil {
		return e.failing(v.err)
	}
	if v.conditions != nil {
		switch matches := v.conditions.Match(r.ctx, e.view, e.params, r.authorizer()); {
		case matches.Error != nil:
			return e.failing(matches.Error)
		case !matches.Matches:
			return result{}
		}
	}
	asked := e.admissionRequest(r)
	with := cel.OptionalVariableBindings{VersionedParams: e.params}
	authorized := with
	authorized.Authorizer = r.authorizer()
	namespace := cel.CreateNamespaceObject(r.namespace)
	outcomes, left, err := v.validations.ForInput(r.ctx, e.view, asked, authorized, namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return e.failing(err)
	}
	messages, _, messageErr := v.messages.ForInput(r.ctx, e.view, asked, with, namespace, left)
	res := result{decisions: make([]decision, len(outcomes))}
	for i, outcome := range outcomes {
		var text cel.EvaluationResult
		if i < len(messages) {
			text = messages[i]
		}
		res.decisions[i] = e.decide(outcome, text, messageErr)
	}
	if res.annotations, err = v.annotate(r, e, asked, r.namespace); err != nil {
		return e.failing(err)
	}
	return res
}

func (e *evaluation) admissionRequest(r *request) *admissionv1.AdmissionRequest {
	return cel.CreateAdmissionRequest(r, metav1.GroupVersionResource(e.Resource), metav1.GroupVersionKind(e.Kind))
}

// decide returns the decision of one validation, whose message is text if it has an expression
// for it; textErr is the error of all of those.
func (e *evaluation) decide(outcome, text cel.EvaluationResult, textErr error) (d decision) {
	defer func() { d.elapsed = outcome.Elapsed }()
	v, is := outcome.ExpressionAccessor.(*validation)
	switch {
	case !is:
		return e.broken("Invalid type sent to validator, expected ValidationCondition")
	case outcome.Error != nil:
		return e.broken(outcome.Error.Error())
	case errors.Is(textErr, apiservercel.ErrInternal), errors.Is(textErr, apiservercel.ErrOutOfBudget):
		return e.broken(fmt.Sprintf("failed messageExpression: %s", textErr))
	case outcome.EvalResult == celtypes.True:
		return decision{}
	}
	return decision{denied: true, reason: v.reason(), message: v.text(text)}
}

// text returns the message of a failed validation: what its expression evaluated to, if that
// is one line and not too long; otherwise the message, or the validation itself.
func (v *validation) text(evaluated cel.EvaluationResult) string {
	if evaluated.Error == nil && evaluated.EvalResult != nil {
		text, _ := evaluated.EvalResult.Value().(string)
		text = strings.TrimSpace(text)
		if text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			return text
		}
	}
	if v.Message != "" {
		if text := strings.TrimSpace(v.Message); text != "" {
			return text
		}
	}
	return "failed expression: " + strings.TrimSpace(v.Expression)
}

// annotate evaluates the audit annotations, with a budget of their own.
func (v *validator) annotate(r *request, e evaluation, asked *admissionv1.AdmissionRequest,
	namespace *corev1.Namespace,
) ([]noted, error) {
	with := cel.OptionalVariableBindings{VersionedParams: e.params}
	outcomes, _, err := v.annotations.ForInput(r.ctx, e.view, asked, with, namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return nil, err
	}
	all := make([]noted, 0, len(outcomes))
	for _, outcome := range outcomes {
		a, is := outcome.ExpressionAccessor.(*annotation)
		if !is {
			continue
		}
		n := noted{key: a.Key, elapsed: outcome.Elapsed}
		switch {
		case outcome.Error != nil:
			if e.failure != admissionregistration.Ignore {
				n.err = outcome.Error.Error()
			}
		case outcome.EvalResult.Type() == celtypes.StringType:
			text, _ := outcome.EvalResult.Value().(string)
			n.value = strings.TrimSpace(text)
		case outcome.EvalResult.Type() != celtypes.NullType:
			n.err = fmt.Sprintf(
				"valueExpression '%v' resulted in unsupported return type: %v. Return type must be either string or null.",
				a.ValueExpression, outcome.EvalResult.Type())
		}
		all = append(all, n)
	}
	return all, nil
}
