package policy

import (
	"sync"

	celgo "github.com/google/cel-go/cel"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// validator is a compiled ValidatingAdmissionPolicy. What does not compile is an error of each
// evaluation.
type validator struct {
	conditions  matchconditions.Matcher // nil: none
	validations cel.ConditionEvaluator
	messages    cel.ConditionEvaluator
	annotations cel.ConditionEvaluator
	err         error // there is no compiler
}

// mutator is a compiled MutatingAdmissionPolicy.
type mutator struct {
	conditions matchconditions.Matcher // nil: none
	compiler   *cel.CompositedCompiler
	patchers   []patcher
	err        error // there is no compiler
}

// patcher makes one patch.
type patcher struct {
	patch.Patcher
	// strict says that a built-in kind refuses unknown fields of what the patch makes: those of
	// an apply configuration are refused before.
	strict bool
}

// Expressions, as upstream's compiler wants them.
type (
	validation struct {
		admissionregistration.Validation
	}
	message    struct{ expression string }
	annotation struct {
		admissionregistration.AuditAnnotation
	}
	variable struct{ admissionregistration.Variable }
)

// GetExpression returns the expression, as do those below.
func (v *validation) GetExpression() string { return v.Expression }
func (m *message) GetExpression() string    { return m.expression }
func (a *annotation) GetExpression() string { return a.ValueExpression }
func (v *variable) GetExpression() string   { return v.Expression }

// GetName returns the name of a variable.
func (v *variable) GetName() string { return v.Name }

// ReturnTypes returns what the expression may evaluate to, as do those below.
func (*validation) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.BoolType} }
func (*message) ReturnTypes() []*celgo.Type    { return []*celgo.Type{celgo.StringType} }
func (*annotation) ReturnTypes() []*celgo.Type {
	return []*celgo.Type{celgo.StringType, celgo.NullType}
}
func (*variable) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType, celgo.DynType} }

// reason returns why a request is refused that fails a validation.
func (v *validation) reason() metav1.StatusReason {
	if v.Reason == nil {
		return metav1.StatusReasonInvalid
	}
	return *v.Reason
}

// plain is the compiler of all policies without variables: a compiler has environments of a
// few hundred KiB, and is changed by nothing but variables.
//
//nolint:gochecknoglobals // made once, and immutable
var plain = sync.OnceValues(newCompiler)

func newCompiler() (*cel.CompositedCompiler, error) {
	return cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
}

// compilerFor returns a compiler that knows the variables of a policy. They may refer to those
// before them only, so none depends on itself.
func compilerFor(variables []admissionregistration.Variable,
	has cel.OptionalVariableDeclarations,
) (*cel.CompositedCompiler, error) {
	if len(variables) == 0 {
		return plain()
	}
	compiler, err := newCompiler()
	if err != nil {
		return nil, err
	}
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i := range variables {
		named[i] = &variable{variables[i]}
	}
	compiler.CompileAndStoreVariables(named, has, environment.StoredExpressions)
	return compiler, nil
}

// conditions are the match conditions of a policy.
type conditions struct {
	policy  string
	all     []admissionregistration.MatchCondition
	failure *admissionregistration.FailurePolicyType
	has     cel.OptionalVariableDeclarations
}

// compile returns nil for no conditions.
func (c conditions) compile(compiler *cel.CompositedCompiler) matchconditions.Matcher {
	if len(c.all) == 0 {
		return nil
	}
	expressions := make([]cel.ExpressionAccessor, len(c.all))
	for i := range c.all {
		expressions[i] = (*matchconditions.MatchCondition)(&c.all[i])
	}
	compiled := compiler.CompileCondition(expressions, c.has, environment.StoredExpressions)
	return matchconditions.NewMatcher(compiled, c.failure, "policy", "validate", c.policy)
}

// newValidator compiles a policy (apiserver policy/validating compilePolicy).
func newValidator(name string, spec *admissionregistration.ValidatingAdmissionPolicySpec) *validator {
	has := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := compilerFor(spec.Variables, has)
	if err != nil {
		return &validator{err: err}
	}
	validations := make([]cel.ExpressionAccessor, len(spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(spec.Validations))
	for i, v := range spec.Validations {
		validations[i] = &validation{v}
		if v.MessageExpression != "" {
			messages[i] = &message{v.MessageExpression}
		}
	}
	annotations := make([]cel.ExpressionAccessor, len(spec.AuditAnnotations))
	for i, a := range spec.AuditAnnotations {
		annotations[i] = &annotation{a}
	}
	const mode = environment.StoredExpressions
	return &validator{
		conditions:  conditions{name, spec.MatchConditions, spec.FailurePolicy, has}.compile(compiler),
		validations: compiler.CompileCondition(validations, has, mode),
		messages:    compiler.CompileCondition(messages, cel.OptionalVariableDeclarations{HasParams: has.HasParams}, mode),
		annotations: compiler.CompileCondition(annotations, has, mode),
	}
}

// newMutator compiles a policy (apiserver policy/mutating compilePolicy).
func newMutator(name string, spec *admissionregistration.MutatingAdmissionPolicySpec) *mutator {
	has := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := compilerFor(spec.Variables, has)
	if err != nil {
		return &mutator{err: err}
	}
	m := &mutator{
		compiler: compiler, conditions: conditions{name, spec.MatchConditions, spec.FailurePolicy, has}.compile(compiler),
	}
	has.HasPatchTypes = true
	for _, mutation := range spec.Mutations {
		switch {
		case mutation.PatchType == admissionregistration.PatchTypeJSONPatch && mutation.JSONPatch != nil:
			expression := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
			evaluator := compiler.CompileMutatingEvaluator(expression, has, environment.StoredExpressions)
			m.patchers = append(m.patchers, patcher{patch.NewJSONPatcher(evaluator), true})
		case mutation.PatchType == admissionregistration.PatchTypeApplyConfiguration && mutation.ApplyConfiguration != nil:
			expression := &patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}
			evaluator := compiler.CompileMutatingEvaluator(expression, has, environment.StoredExpressions)
			m.patchers = append(m.patchers, patcher{patch.NewApplyConfigurationPatcher(evaluator), false})
		}
	}
	return m
}
