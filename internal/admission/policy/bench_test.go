package policy_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// asked is the creation of a pod, as the registry asks about it.
func asked(b *testing.B) admission.Attributes {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(pod)); err != nil {
		b.Fatalf("decode JSON: %v", err)
	}
	gvr := kinds.GroupVersionResource{Version: "v1", Resource: "pods"}
	return admission.NewAttributesRecord(u, nil, u.GroupVersionKind(), "default", "a", gvr, "", admission.Create, nil, false,
		caller)
}

// many tells a server of 100 policies with a binding each.
func many(b *testing.B, resource string) *server {
	s := start(b)
	for i := range 100 {
		name := fmt.Sprintf("p%d", i)
		put(b, s.plugin, validating, name, forAll(resource)+`,"validations":[{"expression":"object.metadata.name != 'b'"}]`)
		put(b, s.plugin, checks, name,
			`"policyName":"`+name+`","validationActions":["Deny"],"matchResources":{"objectSelector":{"matchLabels":{"a":"b"}}}`)
	}
	return s
}

// BenchmarkNoPolicyConcernsTheResource is the cost of 100 policies for other resources.
func BenchmarkNoPolicyConcernsTheResource(b *testing.B) {
	s := many(b, "configmaps")
	r := s.target("", "v1", "pods", "default", "").Resource
	b.ReportAllocs()
	for b.Loop() {
		if s.plugin.Handles(r, "", admission.Create) {
			b.Fatal("handled")
		}
	}
}

// BenchmarkNoPolicyMatches is the cost of 100 policies for the resource, whose bindings select
// other objects. Nothing is evaluated.
func BenchmarkNoPolicyMatches(b *testing.B) {
	s := many(b, "pods")
	a := asked(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.plugin.Validate(b.Context(), a); err != nil {
			b.Fatalf("validate plugin: %v", err)
		}
	}
}

// BenchmarkThreeValidations is the cost of one policy that matches.
func BenchmarkThreeValidations(b *testing.B) {
	s := start(b)
	put(b, s.plugin, validating, "p", forAll("pods")+`,"validations":[{"expression":"object.metadata.name != 'b'"},
		{"expression":"object.spec.containers.all(c, c.image != '')"},`+
		`{"expression":"!has(object.spec.hostNetwork) || !object.spec.hostNetwork"}]`)
	put(b, s.plugin, checks, "b", deny)
	a := asked(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.plugin.Validate(b.Context(), a); err != nil {
			b.Fatalf("validate plugin: %v", err)
		}
	}
}

// BenchmarkApplyConfiguration is the cost of one mutation, without what the registry does to
// bring the object into its form.
func BenchmarkApplyConfiguration(b *testing.B) {
	s := start(b)
	put(b, s.plugin, mutating, "p",
		forAll("pods")+`,"reinvocationPolicy":"Never",`+mutation(`Object{metadata: Object.metadata{labels: {"a": "b"}}}`))
	put(b, s.plugin, changes, "b", change)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.plugin.Admit(b.Context(), asked(b), func() error { return nil }); err != nil {
			b.Fatalf("admit plugin: %v", err)
		}
	}
}

// BenchmarkCompile is the time of the first request after a policy was written.
func BenchmarkCompile(b *testing.B) {
	s := start(b)
	put(b, s.plugin, checks, "b", deny)
	a := asked(b)
	for b.Loop() {
		put(b, s.plugin, validating, "p", forAll("pods")+`,"validations":[{"expression":"object.metadata.name != 'b'"}]`)
		if err := s.plugin.Validate(b.Context(), a); err != nil {
			b.Fatalf("validate plugin: %v", err)
		}
	}
}
