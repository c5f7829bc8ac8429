package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gapless-io/gapless/internal/kinds"
)

// deny is a binding that refuses.
const deny = `"policyName":"p","validationActions":["Deny"]`

const refused = `namespaces "test-foobar" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `

// check is `.check('create')` of upstream's test of cost limits, which costs 350 000.
const check = `authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend').check('create').allowed()`

func repeat(n int, validation string) string {
	return strings.TrimSuffix(strings.Repeat(validation+",", n), ",")
}

// ten is a list of ten numbers.
const ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"

// The first cases are those of upstream's test/integration/apiserver/cel.
func TestNamespacesAreValidated(t *testing.T) {
	tests := []struct{ name, spec, want string }{
		{"the object", `"validations":[{"expression":"object.metadata.name.endsWith('foobar')"}]`, ""},
		{
			"the request",
			`"validations":[{"expression":"request.name.endsWith('foobar') && request.namespace == request.name && ` +
				`request.userInfo.username == 'jane'"}]`, "",
		},
		{
			"another name", `"validations":[{"expression":"object.metadata.name.endsWith('k8s')"}]`,
			"422 Invalid failed expression: object.metadata.name.endsWith('k8s')",
		},
		{
			"a reason", `"validations":[{"expression":"object.metadata.name.endsWith('k8s')","reason":"Forbidden"}]`,
			"403 Forbidden failed expression: object.metadata.name.endsWith('k8s')",
		},
		{"a message", `"validations":[{"expression":"false","message":" no "}]`, "422 Invalid no"},
		{
			"a message expression",
			`"validations":[{"expression":"false","message":"no","messageExpression":"'not ' + object.metadata.name"}]`,
			"422 Invalid not test-foobar",
		},
		{
			"a message of two lines", `"validations":[{"expression":"false","message":"no","messageExpression":"'a\\nb'"}]`,
			"422 Invalid no",
		},
		{
			"a huge message",
			`"validations":[{"expression":"false","message":"no","messageExpression":"` + ten + `.map(x, ` + ten + `.map(y, '` +
				strings.Repeat("x", 100) + `').join()).join()"}]`,
			"422 Invalid no",
		},
		{
			"a message that fails", `"validations":[{"expression":"false","messageExpression":"object.nothing"}]`,
			"422 Invalid failed expression: false",
		},
		{
			"a runtime error, ignored",
			`"failurePolicy":"Ignore","validations":[{"expression":"object.nonExistentProperty == 'someval'"}]`, "",
		},
		{
			"a runtime error", `"validations":[{"expression":"object.nonExistentProperty == 'someval'"}]`,
			"422 Invalid expression 'object.nonExistentProperty == 'someval'' resulted in error: no such key: " +
				"nonExistentProperty",
		},
		{
			"params without a reference",
			`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"object.metadata.name.startsWith(params.metadata.name)"}]`,
			"422 Invalid expression 'object.metadata.name.startsWith(params.metadata.name)' resulted in error: " +
				"no such key: metadata",
		},
		{
			"params are null",
			`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"params == null && ` +
				`namespaceObject == null && oldObject == null"}]`, "",
		},
		{
			"params of an unknown kind", `"paramKind":{"apiVersion":"v1","kind":"Nothing"},"validations":[{"expression":"true"}]`,
			"422 Invalid - failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=Nothing'",
		},
		{
			"params of an unknown kind, ignored",
			`"failurePolicy":"Ignore","paramKind":{"apiVersion":"v1","kind":"Nothing"},"validations":[{"expression":"false"}]`,
			"",
		},
		{
			"a variable",
			`"variables":[{"name":"n","expression":"object.metadata.name"},{"name":"m","expression":"variables.n + '!'"}],` +
				`"validations":[{"expression":"variables.m == 'test-foobar!'"}]`, "",
		},
		{
			"circular variables",
			`"variables":[{"name":"a","expression":"variables.b"},{"name":"b","expression":"variables.a"}],` +
				`"validations":[{"expression":"variables.a == 1"}]`,
			"422 Invalid expression 'variables.a == 1' resulted in error: composited variable \"a\" fails to compile: " +
				"compilation failed: ERROR: <input>:1:10: undefined field 'b'\n | variables.b\n | .........^",
		},
		{
			"it does not compile", `"validations":[{"expression":"nothing"}]`,
			"422 Invalid compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in " +
				"container '')\n | nothing\n | ^",
		},
		{"it does not compile, ignored", `"failurePolicy":"Ignore","validations":[{"expression":"nothing"}]`, ""},
		{
			"conditions match",
			`"matchConditions":[{"name":"c","expression":"has(object.metadata)"}],"validations":[{"expression":"false"}]`,
			"422 Invalid failed expression: false",
		},
		{
			"conditions do not match",
			`"matchConditions":[{"name":"c","expression":"object.metadata.name == ''"}],"validations":[{"expression":"false"}]`,
			"",
		},
		{
			"conditions fail",
			`"matchConditions":[{"name":"c","expression":"object.nothing == ''"}],"validations":[{"expression":"true"}]`,
			"422 Invalid expression 'object.nothing == ''' resulted in error: no such key: nothing",
		},
		{
			"allowed by the authorizer",
			`"validations":[{"expression":"authorizer.group('apps').resource('deployments').namespace('default').check('create').allowed()"}]`, "",
		},
		{
			"not allowed by the authorizer",
			`"validations":[{"expression":"authorizer.requestResource.check('frobnicate').allowed()"}]`,
			"422 Invalid failed expression: authorizer.requestResource.check('frobnicate').allowed()",
		},
		{
			"the limit of a call",
			`"validations":[{"expression":"` + strings.Repeat(ten+".all(x, ", 7) + `int('1'.find('[0-9]*')) < 100` +
				strings.Repeat(")", 7) + `"}]`,
			"422 Invalid expression '" + strings.Repeat(ten+".all(x, ", 7) + `int('1'.find('[0-9]*')) < 100` + strings.Repeat(")",
				7) + "' resulted in error: operation cancelled: actual cost limit exceeded",
		},
		{
			"the limit of a call of the library",
			`"validations":[{"expression":"` + check + ` && ` + check + ` && ` + check + `"}]`,
			"422 Invalid expression '" + check + ` && ` + check + ` && ` + check +
				"' resulted in error: operation cancelled: actual cost limit exceeded",
		},
		{
			"the limit of a policy", `"validations":[` + repeat(29, `{"expression":"`+check+`"}`) + `]`,
			"422 Invalid validation failed due to running out of cost budget, no further validation rules will be run",
		},
		{
			"no constraints", `"matchConstraints":null,"validations":[{"expression":"true"}]`,
			"422 Invalid - failed to configure policy: policy contained no match constraints, a required field",
		},
	}
	s := start(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			put(t, s.plugin, validating, "p", forAll("namespaces")+","+tt.spec)
			put(t, s.plugin, checks, "b", deny)
			got := s.try(s.target("", "v1", "namespaces", "", ""),
				`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"test-foobar"}}`)
			text := ""
			if got.Error != "" {
				prefix := refused
				if strings.Contains(tt.want, " - ") {
					prefix = strings.Replace(prefix, " with binding 'b'", "", 1)
				}
				text = statusLine(got, prefix)
			}
			if diff := cmp.Diff(strings.Replace(tt.want, " - ", " ", 1), text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestActionsOfBindings(t *testing.T) {
	s := start(t)
	put(t, s.plugin, validating, "p",
		forAll("configmaps")+`,"validations":[{"expression":"true"},{"expression":"object.metadata.name.endsWith('k8s')"}]`)
	const text = "failed expression: object.metadata.name.endsWith('k8s')"
	warned := []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': " + text}
	denied := `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ` + text
	tests := []struct {
		actions string
		want    outcome
	}{
		{`"Deny"`, outcome{Error: denied, Reason: "Invalid", Code: 422}},
		{`"Deny","Audit"`, outcome{Error: denied, Reason: "Invalid", Code: 422}},
		{`"Warn"`, outcome{Warnings: warned}},
		{`"Warn","Deny"`, outcome{Error: denied, Reason: "Invalid", Code: 422, Warnings: warned}},
		{`"Audit"`, outcome{}},
	}
	for _, tt := range tests {
		t.Run(tt.actions, func(t *testing.T) {
			put(t, s.plugin, checks, "b", `"policyName":"p","validationActions":[`+tt.actions+`]`)
			target := s.target("", "v1", "configmaps", "default", "")
			got := s.try(target, configMap("a", ""))
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(outcome{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPolicyWithoutABindingDoesNothing(t *testing.T) {
	s := start(t)
	put(t, s.plugin, validating, "p", forAll("*")+`,"validations":[{"expression":"false"}]`)
	target := s.target("", "v1", "configmaps", "default", "")
	if got := s.create(target, configMap("a", "")); got.Error != "" {
		t.Error(got.Error)
	}
	put(t, s.plugin, checks, "b", deny)
	if got := s.create(target, configMap("b", "")); got.Code != 422 {
		t.Errorf("with a binding: %+v", got)
	}
	// It is gone for the next request.
	s.plugin.Change(kinds.GroupResource{Group: group, Resource: checks}, stored(t, "b", deny), true)
	if got := s.create(target, configMap("c", "")); got.Error != "" {
		t.Error(got.Error)
	}
}

func TestReviewsAndPoliciesAreExempt(t *testing.T) {
	s := start(t)
	put(t, s.plugin, validating, "p", forAll("*")+`,"validations":[{"expression":"false"}]`)
	put(t, s.plugin, checks, "b", deny)
	for _, r := range s.live.Load().Resources() {
		gr := r.GR()
		want := gr.Group != "authentication.k8s.io" && gr.Group != "authorization.k8s.io" &&
			(gr.Group != group || strings.HasSuffix(gr.Resource, "webhookconfigurations"))
		if got := s.plugin.Handles(r, "", "CREATE"); got != want {
			t.Errorf("%v: handled %v, want %v", gr, got, want)
		}
	}
}

func TestDeletionsAndUpdatesAreValidated(t *testing.T) {
	s := start(t)
	target := s.target("", "v1", "configmaps", "default", "")
	s.must(target, configMap("a", `"keep":"true"`))
	put(t, s.plugin, validating, "p", forAll("configmaps")+`,"validations":[
		{"expression":"request.operation != 'DELETE' || (object == null && !has(oldObject.data.keep))",`+
		`"message":"it is to be kept"},
		{"expression":"request.operation != 'UPDATE' || object.data.keep == oldObject.data.keep",`+
		`"message":"keep cannot be changed"}]`)
	put(t, s.plugin, checks, "b", deny)
	target.Name = "a"
	_, err := s.Delete(t.Context(), target, deletion())
	if err == nil || !strings.HasSuffix(err.Error(), "it is to be kept") {
		t.Errorf("deletion: %v", err)
	}
	_, err = s.Update(t.Context(), target, []byte(configMap("a", `"keep":"no"`)), update())
	if err == nil || !strings.HasSuffix(err.Error(), "keep cannot be changed") {
		t.Errorf("update: %v", err)
	}
	if _, err = s.Update(t.Context(), target, []byte(configMap("a", `"keep":"true","other":"1"`)), update()); err != nil {
		t.Errorf("update: %v", err)
	}
}

// What a binding selects by labels is found by labels, beside other bindings and policies.
func TestPoliciesAreFoundByTheLabelsOfTheirBindings(t *testing.T) {
	s := start(t)
	namespaces := s.target("", "v1", "namespaces", "", "")
	s.must(namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"prod","labels":{"env":"prod"}}}`)
	put(t, s.plugin, validating, "p", forAll("configmaps")+`,"validations":[{"expression":"false"}]`)
	put(t, s.plugin, checks, "a", deny+`,"matchResources":{"objectSelector":{"matchLabels":{"app":"a"}}}`)
	put(t, s.plugin, checks, "b",
		deny+`,"matchResources":{"namespaceSelector":{"matchExpressions":[{"key":"env","operator":"Exists"}]}}`)
	put(t, s.plugin, validating, "q",
		strings.Replace(forAll("configmaps"), "{",
			`{"objectSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["b","c"]}]},`, 1)+
			`,"validations":[{"expression":"false"}]`)
	put(t, s.plugin, checks, "c", `"policyName":"q","validationActions":["Deny"]`)
	put(t, s.plugin, validating, "r",
		forAll("configmaps")+`,"paramKind":{"apiVersion":"v1","kind":"Nothing"},"validations":[{"expression":"true"}]`)
	for _, c := range []struct{ name, namespace, labels, want string }{
		{"no label", "default", ``, ""},
		{"another value", "default", `"app":"x","env":"prod"`, ""},
		{"a label of the object", "default", `"app":"a"`, "policy 'p' with binding 'a'"},
		{"a label of the namespace", "prod", ``, "policy 'p' with binding 'b'"},
		{"a label that the policy selects", "default", `"app":"c"`, "policy 'q' with binding 'c'"},
		{"two policies", "prod", `"app":"b"`, "policy 'p' with binding 'b'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.try(s.target("", "v1", "configmaps", c.namespace, ""),
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{`+c.labels+`}}}`).Error
			if want := strings.Replace(c.want, "policy", "ValidatingAdmissionPolicy", 1); !strings.Contains(got, want) ||
				want == "" && got != "" {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	put(t, s.plugin, checks, "d",
		`"policyName":"r","validationActions":["Deny"],"matchResources":{"objectSelector":{"matchLabels":{"app":"never"}}}`)
	if got := s.try(s.target("", "v1", "configmaps", "default", ""), configMap("x", "")).Error; !strings.Contains(got,
		"failed to find resource referenced by paramKind") {
		t.Errorf("with params of an unknown kind: %q", got)
	}
}
