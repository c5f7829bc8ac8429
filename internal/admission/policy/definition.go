package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// definition is one version of a policy. After decode it is immutable.
type definition struct {
	name    string
	object  *wire.Object
	mutates bool

	once         sync.Once
	err          error // of decode
	failure      admissionregistration.FailurePolicyType
	criteria     *match.Criteria // nil: criteriaErr is set
	criteriaErr  error
	paramKind    *admissionregistration.ParamKind
	params       kinds.GroupVersionKind // of paramKind
	validating   *admissionregistration.ValidatingAdmissionPolicySpec
	mutating     *admissionregistration.MutatingAdmissionPolicySpec
	compileCheck func() *validator
	compileMut   func() *mutator
}

// decode reads the policy, and prepares to compile it once.
func (d *definition) decode() error {
	d.once.Do(func() { d.err = d.read() })
	return d.err
}

func (d *definition) read() error {
	var constraints *admissionregistration.MatchResources
	var failure *admissionregistration.FailurePolicyType
	if d.mutates {
		var policy admissionregistration.MutatingAdmissionPolicy
		if err := json.Unmarshal(d.object.JSON(), &policy); err != nil {
			return fmt.Errorf("read a MutatingAdmissionPolicy: %w", err)
		}
		d.mutating = &policy.Spec
		constraints, failure, d.paramKind = policy.Spec.MatchConstraints, policy.Spec.FailurePolicy, policy.Spec.ParamKind
		d.compileMut = sync.OnceValue(func() *mutator { return newMutator(d.name, d.mutating) })
	} else {
		var policy admissionregistration.ValidatingAdmissionPolicy
		if err := json.Unmarshal(d.object.JSON(), &policy); err != nil {
			return fmt.Errorf("read a ValidatingAdmissionPolicy: %w", err)
		}
		d.validating = &policy.Spec
		constraints, failure, d.paramKind = policy.Spec.MatchConstraints, policy.Spec.FailurePolicy, policy.Spec.ParamKind
		d.compileCheck = sync.OnceValue(func() *validator { return newValidator(d.name, d.validating) })
	}
	d.failure = admissionregistration.Fail
	if failure != nil {
		d.failure = *failure
	}
	if d.paramKind != nil {
		gv, err := k8sschema.ParseGroupVersion(d.paramKind.APIVersion)
		if err != nil {
			return fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
		}
		d.params = gv.WithKind(d.paramKind.Kind)
	}
	if constraints == nil {
		d.criteriaErr = errors.New("policy contained no match constraints, a required field")
		return nil
	}
	d.criteria, d.criteriaErr = match.Compile(constraints)
	return nil
}

// binding is one version of a binding. After decode it is immutable.
type binding struct {
	name   string
	object *wire.Object

	once        sync.Once
	err         error // of decode
	policy      string
	criteria    *match.Criteria // nil: everything that its policy matches, or criteriaErr
	criteriaErr error
	paramRef    *admissionregistration.ParamRef
	actions     []admissionregistration.ValidationAction
}

// decode reads the binding. Those of the two kinds of policies have the same members, except
// the actions.
func (b *binding) decode() error {
	b.once.Do(func() {
		var read admissionregistration.ValidatingAdmissionPolicyBinding
		if err := json.Unmarshal(b.object.JSON(), &read); err != nil {
			b.err = fmt.Errorf("read a binding of a policy: %w", err)
			return
		}
		b.policy, b.paramRef, b.actions = read.Spec.PolicyName, read.Spec.ParamRef, read.Spec.ValidationActions
		if read.Spec.MatchResources != nil {
			b.criteria, b.criteriaErr = match.Compile(read.Spec.MatchResources)
		}
	})
	return b.err
}

// matched is an invocation of a policy: with a binding, and what the request is to it.
type matched struct {
	*definition
	match.Matched
	binding *binding
	params  []*params
}

// problem is why a policy or a binding could not be evaluated for a request.
type problem struct {
	policy  *definition
	binding *binding // nil: it is the policy's
	err     error
	// evaluated says that the policy was found and asked; otherwise it could not be.
	evaluated bool
}

// invocations returns the invocations of a policy for a request, one for each of its bindings that
// matches, and calls failed for those that cannot be evaluated.
func (p *Plugin) invocations(r *request, c *candidate, failed func(problem)) []matched {
	d := c.policy
	if c.plan == nil {
		failed(problem{policy: d, err: d.criteriaErr})
		return nil
	}
	by, is, err := p.match.Matches(c.plan, r)
	if err != nil {
		failed(problem{policy: d, err: err})
	}
	if err != nil || !is {
		return nil
	}
	source, err := p.paramsOf(d)
	if err != nil {
		failed(problem{policy: d, err: err})
		return nil
	}
	var all []matched
	for _, b := range c.bindings {
		is, err := true, b.criteriaErr
		if err == nil && b.plan != nil {
			_, is, err = p.match.Matches(b.plan, r)
		}
		if err != nil {
			failed(problem{policy: d, binding: b.binding, err: err})
		}
		if err != nil || !is {
			continue
		}
		params, err := p.collect(r, source, b.binding)
		if err != nil {
			failed(problem{policy: d, binding: b.binding, err: err})
			continue
		}
		if len(params) > 0 {
			all = append(all, matched{definition: d, Matched: by, binding: b.binding, params: params})
		}
	}
	return all
}
