package policy_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// FuzzEvaluate evaluates policies that read and change much of an object, which may be anything.
// They end within their cost, and change nothing when they fail.
func FuzzEvaluate(f *testing.F) {
	f.Add(pod, pod)
	f.Add(`{"metadata":{"name":1,"labels":{"a":null}},"spec":[[],{}]}`, `{}`)
	f.Add(`{"spec":{"containers":{"a":1e300},"n":9223372036854775807}}`, `{"spec":{"containers":[{"name":"\ud800"}]}}`)
	f.Add(`{"metadata":{"labels":{"x":"`+strings.Repeat("y", 1000)+`"}}}`, `{"metadata":{"labels":[]}}`)
	s := start(f)
	put(f, s.plugin, validating, "p",
		forAll("pods")+`,"variables":[{"name":"v","expression":"object.spec.containers.map(c, c.image)"}],"validations":[
		{"expression":"object == oldObject","messageExpression":"string(object.spec) + object.metadata.name"},
		{"expression":"variables.v.all(x, variables.v.all(y, x.matches(y)))"},
		{"expression":"object.metadata.labels.all(k,`+
			` k.find('(a+)+b') == '' || quantity(object.metadata.labels[k]).isGreaterThan(quantity('1')))"},
		{"expression":"object.spec.n + 1 > oldObject.spec.n"}],
		"auditAnnotations":[{"key":"a","valueExpression":"string(object.spec.containers)"}]`)
	put(f, s.plugin, checks, "b", deny)
	put(f, s.plugin, mutating, "p", forAll("pods")+`,"reinvocationPolicy":"IfNeeded",`+mutation(
		`Object{metadata: Object.metadata{labels: {"a": object.metadata.name}}, spec: Object.spec{hostname: `+
			`string(object.spec.n)}}`,
		`[JSONPatch{op: "add", path: "/spec/containers/-", value: object.spec}, JSONPatch{op: "copy", from: "/metadata", `+
			`path: "/spec/copy"}]`))
	put(f, s.plugin, changes, "b", change)
	gvr := kinds.GroupVersionResource{Version: "v1", Resource: "pods"}
	f.Fuzz(func(t *testing.T, text, oldText string) {
		u, old := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if u.UnmarshalJSON([]byte(text)) != nil || old.UnmarshalJSON([]byte(oldText)) != nil {
			return
		}
		kind := gvr.GroupVersion().WithKind("Pod")
		u.SetGroupVersionKind(kind)
		a := admission.NewAttributesRecord(u, old, kind, "default", "a", gvr, "", admission.Update, nil, false, caller)
		kept := old.DeepCopy()
		for range 2 {
			_ = s.plugin.Admit(t.Context(), a, func() error { return nil })
			a.GetReinvocationContext().SetIsReinvoke()
		}
		_ = s.plugin.Validate(t.Context(), a)
		if !equal(kept.Object, old.Object) {
			t.Errorf("the old object was changed: %v", old.Object)
		}
	})
}
