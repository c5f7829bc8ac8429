package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// mergedFields returns which fields the manager of an object manages, by the schema of its kind.
func mergedFields(t *testing.T, schemaText, object string) string {
	t.Helper()
	r := customResource(schemaText)
	types, err := openapi.MergeTypes(r)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal([]byte(object), &tree); err != nil {
		t.Fatal(err)
	}
	parseable := types[r.GVK()]
	value, err := parseable.FromUnstructured(tree)
	if err != nil {
		t.Fatal(err)
	}
	set, err := value.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	return set.String() + "\n"
}

// TestMetadataOfEmbeddedObjectsIsMerged as that of every object: finalizers are a set, owner references
// are known by their uid, also where unknown fields are kept.
func TestMetadataOfEmbeddedObjectsIsMerged(t *testing.T) {
	for _, more := range []string{`,"x-kubernetes-preserve-unknown-fields":true`, `,"properties":{"x":{"type":"string"}}`} {
		got := mergedFields(t,
			`{"type":"object","properties":{"list":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true}},
"pod":{"type":"object","x-kubernetes-embedded-resource":true`+more+`}}}`,
			`{"pod":{"apiVersion":"v1","kind":"Pod","x":"1","metadata":{
"finalizers":["a/b"],"labels":{"l":"1"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}}`)
		for _, want := range []string{
			`.pod.metadata.finalizers[="a/b"]`, `.pod.metadata.ownerReferences[uid="u"]`, ".pod.metadata.labels.l", ".pod.x",
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%s: %q is not managed:\n%s", more, want, got)
			}
		}
	}
}

// TestValuesWithoutATypeAreMergedAsTheyAre, whatever rules there are about them.
func TestValuesWithoutATypeAreMergedAsTheyAre(t *testing.T) {
	got := mergedFields(t,
		`{"type":"object","properties":{"any":{"x-kubernetes-preserve-unknown-fields":true,"oneOf":[{"minLength":1},{"minProperties":1}]}}}`,
		`{"any":{"a":{"b":1}}}`)
	if !strings.Contains(got, ".any.a.b\n") {
		t.Errorf("managed:\n%s", got)
	}
}

// TestEmbeddedObjectsHaveAHeadInVersion3, which version 2 has for those without unknown fields.
func TestEmbeddedObjectsHaveAHeadInVersion3(t *testing.T) {
	r := customResource(
		`{"type":"object","properties":{"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"required":["kind"]}}}`)
	f, err := openapi.Custom(openapi.JSON3, r)
	if err != nil {
		t.Fatal(err)
	}
	pod := at(t, tree(t, f.Definitions), "com.example.t.v1.Foo", "properties", "pod")
	if required := at(t, pod, "required").([]any); len(required) != 2 || required[0] != "kind" || required[1] != "apiVersion" {
		t.Errorf("required: %v", required)
	}
	at(t, pod, "properties", "metadata", "allOf")
	at(t, pod, "properties", "kind", "description")
}
