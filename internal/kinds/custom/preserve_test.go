package custom_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
)

// TestEmbeddedMetadataIsCoercedWhereUnknownFieldsAreKept: an old definition that preserves
// unknown fields does not prune, but the metadata of embedded resources gets its form.
func TestEmbeddedMetadataIsCoercedWhereUnknownFieldsAreKept(t *testing.T) {
	u := definition(t, "foos", kinds.NewCatalog())
	spec, _ := u.Object["spec"].(map[string]any)
	spec["preserveUnknownFields"] = true
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
			"template": map[string]any{
				"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
			},
		}}}
	}
	body, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	list, err := custom.Resources(body)
	if err != nil {
		t.Fatal(err)
	}
	r := list[0]
	got, _, err := r.Type.Decode([]byte(`{"apiVersion":"`+r.APIVersion()+`","kind":"Foo","metadata":{"name":"a"},"unknown":1,`+
		`"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","creationTimestamp":null,"unknown":2}}}`),
		kinds.FieldsIgnore)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": r.APIVersion(), "kind": "Foo", "metadata": map[string]any{"name": "a"}, "unknown": int64(1),
		"template": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "b"}},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error(diff)
	}
}
