package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// policy returns a valid policy with one validation.
func policy(expression string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				MatchPolicy: new(admissionv1.Exact), NamespaceSelector: &metav1.LabelSelector{},
				ObjectSelector: &metav1.LabelSelector{},
				ResourceRules:  []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule()}},
			},
			Validations: []admissionv1.Validation{{Expression: expression}},
		},
	}
}

func rule() admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"*"},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
	}
}

func hook(name string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: name, ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://h")},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func hooks(all ...admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Webhooks: all}
}

// expect requires one error, which begins with want; "" for none.
func expect(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	switch {
	case want == "" && len(errs) == 0:
	case want == "" || len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want):
		t.Errorf("got %.2000v, want %q", errs, want)
	}
}

func TestWhatOneObjectMayCompileIsBounded(t *testing.T) {
	many := policy("true")
	for range maxExpressions {
		many.Spec.Validations = append(many.Spec.Validations, admissionv1.Validation{Expression: "nonsense("})
	}
	expect(t, validateNewValidatingPolicy(many),
		"spec: Forbidden: has 1001 CEL expressions, this server compiles at most 1000 of one object")
	long := hook("a.b.c")
	long.MatchConditions = []admissionv1.MatchCondition{
		{Name: "a", Expression: strings.Repeat("(", maxExpressionBytes+1)},
	}
	expect(t, validateNewValidatingWebhooks(hooks(long)),
		"webhooks: Forbidden: has 131073 bytes of CEL expressions, this server compiles at most 131072 of one object")
	for _, text := range []string{"(a{1,1000}|b)", "(a{1000}|b)", `(a\\x7b1000}|b)`, `(a\\173\\61000}|b)`} {
		text = strings.ReplaceAll(text, `\\`, `\`)
		expect(t, validateNewValidatingPolicy(policy("request.name.matches('"+strings.Repeat(text, 1000)+"')")),
			"spec: Forbidden: has CEL expressions with patterns that repeat too much")
	}
	expect(t, validateNewValidatingPolicy(policy("request.name.matches('"+strings.Repeat("[a-z]{1,63}", 100)+"')")), "")
}

// TestTheTextOfErrorsIsBounded has the compiler report many errors in long lines, each of
// which it would quote.
func TestTheTextOfErrorsIsBounded(t *testing.T) {
	const most = 200 << 10 // bytes: two bounds, and the paths
	o := policy("true")
	for i := range 7 {
		line := "[" + strings.Repeat(fmt.Sprintf("undeclared%d,", i), 1000)
		o.Spec.Validations = append(o.Spec.Validations, admissionv1.Validation{Expression: line + "1] == []"})
	}
	size := 0
	for _, err := range validateNewValidatingPolicy(o) {
		size += len(err.Detail)
	}
	if size == 0 || size > most {
		t.Errorf("got %d bytes of errors, want 1 to %d", size, most)
	}
}

func TestAnUpdateMayKeepWhatOlderServersAccepted(t *testing.T) {
	unknown := hook("a.b.c")
	unknown.SideEffects = new(admissionv1.SideEffectClassUnknown)
	if errs := validateNewValidatingWebhooks(hooks(unknown)); len(errs) != 1 {
		t.Errorf("a new webhook with side effects: got %v, want an error", errs)
	}
	expect(t, validateValidatingWebhooksUpdate(hooks(unknown), hooks(unknown)), "")
	expect(t, validateValidatingWebhooksUpdate(hooks(unknown), hooks(hook("a.b.c"))),
		`webhooks[0].sideEffects: Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"`)

	twice := hooks(hook("a.b.c"), hook("a.b.c"))
	expect(t, validateNewValidatingWebhooks(twice), `webhooks[1].name: Duplicate value: "a.b.c"`)
	expect(t, validateValidatingWebhooksUpdate(twice, twice), "")

	broken := hook("a.b.c")
	broken.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "("}}
	expect(t, validateValidatingWebhooksUpdate(hooks(broken), hooks(broken)), "")
	expect(t, validateValidatingWebhooksUpdate(hooks(broken), hooks(hook("a.b.c"))),
		`webhooks[0].matchConditions[0].expression: Invalid value: "(": compilation failed: ERROR: <input>:1:2: Syntax error`)
}

func TestExpressionsHaveTheTypesOfTheirPlaces(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*admissionv1.ValidatingAdmissionPolicySpec)
		want   string
	}{
		{
			"a validation", func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].Expression = "1" },
			`spec.validations[0].expression: Invalid value: "1": must evaluate to bool`,
		},
		{
			"a message", func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].MessageExpression = "1" },
			`spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string`,
		},
		{"an annotation", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "a", ValueExpression: " 1"}}
		}, `spec.auditAnnotations[0].valueExpression: Invalid value: " 1": must evaluate to one of [string ` +
			`null_type] but got int`},
		{
			"no parameters", func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].Expression = "params.a" },
			`spec.validations[0].expression: Invalid value: "params.a": compilation failed: ERROR: <input>:1:1: undeclared ` +
				`reference to 'params'`,
		},
		{"parameters", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			s.Validations[0].Expression = "params.a == 'b'"
		}, ""},
		{"a variable", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.Variables = []admissionv1.Variable{{Name: "a", Expression: "1"}, {Name: "b", Expression: "variables.a + 1"}}
			s.Validations[0].Expression = "variables.b == 2"
		}, ""},
		{"a variable before its time", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.Variables = []admissionv1.Variable{{Name: "b", Expression: "variables.a"}, {Name: "a", Expression: "1"}}
		}, `spec.variables[0].expression: Invalid value: "variables.a": compilation failed: ERROR: <input>:1:10: ` +
			`undefined field 'a'`},
		{"a reserved name", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.Variables = []admissionv1.Variable{{Name: "loop", Expression: "1"}}
		}, `spec.variables[0].name: Invalid value: "loop": must be a valid CEL identifier`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := policy("true")
			tt.change(&o.Spec)
			expect(t, validateNewValidatingPolicy(o), tt.want)
		})
	}
}
