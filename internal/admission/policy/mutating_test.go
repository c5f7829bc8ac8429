package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// change is a binding of a mutating policy.
const change = `"policyName":"p"`

// mutation is the mutations of a policy: an apply configuration, or a JSON patch, which is in
// brackets.
func mutation(expressions ...string) string {
	var all []string
	for _, e := range expressions {
		e = strings.ReplaceAll(e, `"`, `'`)
		if strings.HasPrefix(e, "[") {
			all = append(all, `{"patchType":"JSONPatch","jsonPatch":{"expression":"`+e+`"}}`)
		} else {
			all = append(all, `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"`+e+`"}}`)
		}
	}
	return `"mutations":[` + strings.Join(all, ",") + `]`
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"main","image":"i"}]}}`

// TestObjectsAreMutated looks at one member of the object that a write makes.
func TestObjectsAreMutated(t *testing.T) {
	tests := []struct {
		name, spec string
		path       []string
		want       any
		err        string
	}{
		{
			"an apply configuration", mutation(`Object{metadata: Object.metadata{labels: {"by": object.metadata.name}}}`),
			[]string{"metadata", "labels"},
			map[string]any{"by": "a"},
			"",
		},
		{
			"a JSON patch",
			mutation(
				`[JSONPatch{op: "add", path: "/metadata/annotations", value: {"example.com/x": request.userInfo.username}}, ` +
					`JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("example.com/y"), value: "2"}]`),
			[]string{"metadata", "annotations"},
			map[string]any{"example.com/x": "jane", "example.com/y": "2"},
			"",
		},
		{
			"two mutations",
			mutation(`Object{spec: Object.spec{hostname: "h"}}`,
				`Object{spec: Object.spec{subdomain: object.spec.hostname + "s"}}`),
			[]string{"spec", "subdomain"},
			"hs", "",
		},
		{
			"a variable",
			`"variables":[{"name":"v","expression":"namespaceObject.metadata.name"}],` +
				mutation(`Object{spec: Object.spec{hostname: variables.v}}`),
			[]string{"spec", "hostname"},
			"default", "",
		},
		{
			"defaults of what is added",
			mutation(`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "init", image: "x:1"}]}}`),
			[]string{"spec", "initContainers"},
			[]any{map[string]any{
				"name": "init", "image": "x:1", "imagePullPolicy": "IfNotPresent", "resources": map[string]any{},
				"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
			}},
			"",
		},
		{
			"numbers stay integers", mutation(`[JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: 7}]`),
			[]string{"spec", "terminationGracePeriodSeconds"},
			int64(7), "",
		},
		{
			"a test that fails changes nothing",
			mutation(
				`[JSONPatch{op: "test", path: "/metadata/name", value: "b"}, JSONPatch{op: "add", path: ` +
					`"/spec/hostname", value: "h"}]`),
			[]string{"spec", "hostname"},
			nil, "",
		},
		{
			"conditions do not match",
			`"matchConditions":[{"name":"c","expression":"false"}],` + mutation(`Object{spec: Object.spec{hostname: "h"}}`),
			[]string{"spec", "hostname"},
			nil, "",
		},
		{
			"an error is ignored", `"failurePolicy":"Ignore",` + mutation(`Object{spec: Object.spec{hostname: object.nothing}}`),
			[]string{"spec", "hostname"},
			nil, "",
		},
		{
			"an error", mutation(`Object{spec: Object.spec{hostname: object.nothing}}`), nil, nil,
			"policy 'p' with binding 'b' denied request: expression 'Object{spec: Object.spec{hostname: object.nothing}}' " +
				"resulted in error: no such key: nothing",
		},
		{
			"an unknown field", mutation(`Object{spec: Object.spec{nothing: "h"}}`), nil, nil,
			"policy 'p' with binding 'b' denied request: error applying patch: failed to convert patch object to typed object: " +
				".spec.nothing: field not declared in schema",
		},
		{
			"an atomic list",
			mutation(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", args: ["x"]}]}}`), nil, nil,
			"policy 'p' with binding 'b' denied request: error applying patch: invalid ApplyConfiguration: may not mutate " +
				"atomic arrays, maps or structs: .spec.containers[0].args",
		},
		{
			"a type that is not the field's", mutation(`Object{spec: Object.wrong{}}`), nil, nil,
			"policy 'p' with binding 'b' denied request: type mismatch: unexpected type name \\\"Object.wrong\\\", expected " +
				"\\\"Object.spec\\\", which matches field name path from root Object type",
		},
		{
			"a path that does not exist", mutation(`[JSONPatch{op: "remove", path: "/spec/nothing"}]`), nil, nil,
			"policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/spec/nothing': Unable to " +
				"remove nonexistent key: nothing: missing value",
		},
		{
			"a path to an unknown field", mutation(`[JSONPatch{op: "add", path: "/spec/nothing", value: "x"}]`), nil, nil,
			"Internal error occurred: strict decoding error: unknown field \\\"spec.nothing\\\"",
		},
		{
			"no object", mutation(`[JSONPatch{op: "replace", path: "/spec", value: 1}]`), nil, nil,
			"Pod in version \"v1\" cannot be handled as a Pod",
		},
		{
			"another kind", mutation(`[JSONPatch{op: "replace", path: "/kind", value: "Node"}]`), nil, nil,
			"must not change the kind of an object",
		},
	}
	s := start(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			put(t, s.plugin, mutating, "p", forAll("pods")+`,"reinvocationPolicy":"Never",`+tt.spec)
			put(t, s.plugin, changes, "b", change)
			got := s.try(s.target("", "v1", "pods", "default", ""), pod)
			if tt.err != "" || got.Error != "" {
				if want := strings.ReplaceAll(tt.err, `\"`, `"`); want == "" || !strings.Contains(got.Error, want) {
					t.Errorf("%d %s %q\nwant %q", got.Code, got.Reason, got.Error, want)
				}
				return
			}
			var at any = content(t, got.object)
			for _, name := range tt.path {
				m, _ := at.(map[string]any)
				at = m[name]
			}
			if diff := cmp.Diff(tt.want, at); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestPoliciesAreAppliedInOrderAndAgain: a policy before sees the change of one after it, if it
// wants to be invoked again.
func TestPoliciesAreAppliedInOrderAndAgain(t *testing.T) {
	for again, want := range map[string]string{"Never": "default", "IfNeeded": "sub"} {
		s := start(t)
		put(t, s.plugin, mutating, "first", forAll("pods")+`,"reinvocationPolicy":"`+again+`",`+
			mutation(`Object{spec: Object.spec{hostname: has(object.spec.subdomain) ? object.spec.subdomain : "default"}}`))
		put(t, s.plugin, mutating, "second",
			forAll("pods")+`,"reinvocationPolicy":"Never",`+mutation(`Object{spec: Object.spec{subdomain: "sub"}}`))
		put(t, s.plugin, changes, "x", `"policyName":"first"`)
		put(t, s.plugin, changes, "a", `"policyName":"second"`)
		got := s.try(s.target("", "v1", "pods", "default", ""), pod)
		if got.Error != "" {
			t.Fatal(got.Error)
		}
		spec, _ := content(t, got.object)["spec"].(map[string]any)
		if spec["hostname"] != want || spec["subdomain"] != "sub" {
			t.Errorf("%s: %v %v", again, spec["hostname"], spec["subdomain"])
		}
	}
}

func TestCustomResourcesAreMutatedAndValidated(t *testing.T) {
	s := start(t)
	s.define("Cluster")
	put(t, s.plugin, mutating, "p",
		forAll("limits")+`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"reinvocationPolicy":"Never",`+
			mutation(`Object{parts: [Object.parts{n: "b", v: params.data.v}], labels: Object.labels{l: "1"}}`,
				`[JSONPatch{op: "add", path: "/max", value: object.max + 1}]`))
	put(t, s.plugin, changes, "b", change+`,"paramRef":{"selector":{},"namespace":"default","parameterNotFoundAction":"Deny"}`)
	s.must(s.target("", "v1", "configmaps", "default", ""), configMap("a", `"v":"1"`))
	s.must(s.target("", "v1", "configmaps", "default", ""), configMap("b", `"v":"2"`))
	put(t, s.plugin, validating, "p",
		forAll("limits")+`,"validations":[{"expression":"object.max == 3","messageExpression":"string(object.max)"}]`)
	put(t, s.plugin, checks, "b", deny)
	target := s.target("t.example.com", "v1beta1", "limits", "", "")
	got := s.try(target,
		`{"apiVersion":"t.example.com/v1beta1","kind":"Limit","metadata":{"name":"a"},"max":1,"parts":[{"n":"a","v":"0"},{"n":"b","v":"0"}]}`)
	if got.Error != "" {
		t.Fatal(got.Error)
	}
	o := content(t, got.object)
	delete(o, "metadata")
	want := map[string]any{
		"apiVersion": "t.example.com/v1beta1", "kind": "Limit", "max": int64(3), "labels": map[string]any{"l": "1"},
		"parts": []any{map[string]any{"n": "a", "v": "0"}, map[string]any{"n": "b", "v": "2"}},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := s.try(target,
		`{"apiVersion":"t.example.com/v1beta1","kind":"Limit","metadata":{"name":"a"},"max":2}`); !strings.HasSuffix(got.Error,
		"denied request: 4") {
		t.Errorf("%+v", got)
	}
}

// TestEquivalentVersionsAreMutated: what a policy for another version changes is converted back.
func TestEquivalentVersionsAreMutated(t *testing.T) {
	s := start(t)
	put(t, s.plugin, mutating, "p",
		`"matchConstraints":{"resourceRules":[{"apiGroups":["autoscaling"],"apiVersions":["v2"],"operations":["*"],"resources":["horizontalpodautoscalers"]}]},"reinvocationPolicy":"Never",`+
			mutation(`[JSONPatch{op: "add", path: "/spec/metrics/0/resource/target/averageUtilization", value: 42}]`))
	put(t, s.plugin, changes, "b", change)
	got := s.try(s.target("autoscaling", "v1", "horizontalpodautoscalers", "default", ""),
		`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},
		"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"targetCPUUtilizationPercentage":70}}`)
	if got.Error != "" {
		t.Fatal(got.Error)
	}
	spec, _ := content(t, got.object)["spec"].(map[string]any)
	if spec["targetCPUUtilizationPercentage"] != int64(42) {
		t.Errorf("%v", spec)
	}
}
