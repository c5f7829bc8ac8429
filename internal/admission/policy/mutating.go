package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// mutation is the mutating policies at work on one request.
type mutation struct {
	*request
	redo     func() error
	problems []problem
}

// mutate applies mutating policies in the order of their names (apiserver policy/mutating
// dispatchInvocations). Errors: that of the first problem, 404 without the request's
// namespace.
func (p *Plugin) mutate(ctx context.Context, r *request, candidates *sifted, redo func() error) error {
	r.ctx = ctx
	m := &mutation{request: r, redo: redo}
	var all []matched
	for _, i := range p.match.Passing(&candidates.sieve, r) {
		all = append(all, p.invocations(r, &candidates.all[i], func(why problem) {
			text := "failed to configure policy: %w"
			if why.binding != nil {
				text = "failed to configure binding: %w"
			}
			why.err = fmt.Errorf(text, why.err)
			m.problems = append(m.problems, why)
		})...)
	}
	if len(all) > 0 {
		if err := m.invokeAll(all); err != nil { //nolint:contextcheck // the request has it
			return err
		}
	}
	return m.refuse()
}

func (m *mutation) invokeAll(all []matched) error {
	if err := m.readNamespace(); err != nil {
		return err
	}
	object, is := m.GetObject().(*unstructured.Unstructured)
	if !is {
		return nil // nothing to change
	}
	again := reinvocationOf(m.request)
	defer func() { again.last = object.DeepCopy() }()
	if m.GetReinvocationContext().IsReinvoke() && !apiequality.Semantic.DeepEqual(again.last, object) {
		again.requireAll()
	}
	for _, by := range all {
		for _, with := range by.params {
			if err := m.invoke(by, with, object, again); err != nil {
				return err
			}
		}
	}
	return nil
}

// invoke applies the mutations of a policy with one parameter.
func (m *mutation) invoke(by matched, with *params, object *unstructured.Unstructured, again *reinvocation) error {
	compiled := by.compileMut()
	if compiled.err != nil {
		return apierrors.NewInternalError(compiled.err)
	}
	view, err := m.versioned(by.Matched)
	if err != nil {
		m.problems = append(m.problems, problem{policy: by.definition, err: fmt.Errorf("failed to configure policy: %w", err)})
		return nil
	}
	ctx := compiled.compiler.CreateContext(m.ctx)
	if compiled.conditions != nil {
		matches := compiled.conditions.Match(ctx, view, with.object, m.authorizer())
		if matches.Error != nil {
			m.failed(by, matches.Error)
		}
		if matches.Error != nil || !matches.Matches {
			return nil //nolint:nilerr // the error is the policy's
		}
	}
	key := invocation{policy: by.name, binding: by.binding.name, params: with.name()}
	if m.GetReinvocationContext().IsReinvoke() && !again.due[key] {
		return nil
	}
	before := object.DeepCopy()
	for _, patcher := range compiled.patchers {
		began := time.Now()
		err := m.apply(ctx, patcher, by, with)
		m.plugin.metrics.mutated(by, err, time.Since(began))
		if _, is := errors.AsType[*apierrors.StatusError](err); is {
			return err
		}
		if err != nil {
			m.failed(by, err)
		}
	}
	if !apiequality.Semantic.DeepEqual(before.Object, object.Object) {
		again.requireAll()
		m.GetReinvocationContext().SetShouldReinvoke()
	}
	if by.mutating.ReinvocationPolicy == admissionregistration.IfNeededReinvocationPolicy {
		again.may[key] = true
	}
	return nil
}

// failed records that a policy could not be evaluated.
func (m *mutation) failed(by matched, err error) {
	m.problems = append(m.problems, problem{policy: by.definition, binding: by.binding, err: err, evaluated: true})
}

// apply makes one patch, and brings the object into its form. A patch that does not fit the
// kind's schema has changed nothing.
func (m *mutation) apply(ctx context.Context, patcher patcher, by matched, with *params) error {
	view, err := m.versioned(by.Matched)
	if err != nil {
		return err
	}
	types, err := m.typesOf(by.Matched)
	if err != nil {
		return err
	}
	patched, err := patcher.Patch(ctx, patch.Request{
		MatchedResource: by.Resource, VersionedAttributes: view, ObjectInterfaces: interfaces{},
		OptionalVariables: cel.OptionalVariableBindings{VersionedParams: with.object, Authorizer: m.authorizer()},
		Namespace:         m.namespace, TypeConverter: types,
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return err
	}
	u, is := patched.(*unstructured.Unstructured)
	object, isObject := m.GetObject().(*unstructured.Unstructured)
	if !is || !isObject {
		return apierrors.NewInternalError(fmt.Errorf("a patch made a %T of an object", patched))
	}
	if u.GroupVersionKind() != by.Kind {
		return apierrors.NewInternalError(fmt.Errorf("a policy must not change the kind of an object, from %v to %v",
			by.Kind, u.GroupVersionKind()))
	}
	if patcher.strict {
		if err := m.known(by, u); err != nil {
			return err
		}
	}
	converted, err := m.views.Convert(ctx, u, by.Matched, m.views.Own())
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	// Expressions see a copy: redo changes the object in place, and views share it.
	object.Object = converted.DeepCopy().Object
	m.views.Forget()
	return m.redo()
}

// known returns an error for unknown fields in an object of a built-in kind, as upstream, which
// decodes what a patch makes. Custom resources are pruned.
func (m *mutation) known(by matched, u *unstructured.Unstructured) error {
	r, served := m.plugin.live.Load().Lookup(by.Resource)
	if !served || r.Custom || r.GVK() != by.Kind {
		return nil
	}
	text, err := wire.Canonical(u.Object)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if _, _, err = r.Type.Decode(text, kinds.FieldsStrict); err != nil {
		text := err.Error()
		if i := strings.Index(text, "strict decoding error"); i > 0 {
			text = text[i:] // upstream's decoder does not name the kind
		}
		return apierrors.NewInternalError(errors.New(text))
	}
	return nil
}

// refuse returns the error of the policies that could not be evaluated and must be.
func (m *mutation) refuse() error {
	var refused *apierrors.StatusError
	for _, why := range m.problems {
		if why.policy.failure == admissionregistration.Ignore {
			continue
		}
		text := fmt.Sprintf("policy %q denied request: %s", why.policy.name, why.err)
		if why.binding != nil {
			text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", why.policy.name, why.binding.name, why.err)
		}
		if refused == nil {
			err := admission.NewForbidden(m.request, errors.New(text))
			status, is := errors.AsType[*apierrors.StatusError](err)
			if !is {
				return err // it always is
			}
			refused = status
			refused.ErrStatus.Message = text
			if why.evaluated {
				refused.ErrStatus.Reason = metav1.StatusReasonInvalid
			}
		}
		refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	}
	if refused == nil {
		return nil
	}
	return refused
}
