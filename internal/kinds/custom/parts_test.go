package custom

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// FuzzColumns: the cell of a part of an object is that of the whole object, whatever the
// path and its type.
func FuzzColumns(f *testing.F) {
	const object = `{"spec":{"a":"x","b-c":[1,2.5,true,{"d":{"e":null}}],"size":9007199254740993},` +
		`"status":{"conditions":[{"type":"Ready","status":"True"}]},"metadata":{"managedFields":[{"manager":"m"}]}}`
	for _, path := range []string{
		".spec.a", ".spec", ".spec.b-c", ".spec.b-c[0]", ".spec.b-c[*]", ".spec.b-c[3].d.e", ".spec.size",
		".status.conditions[?(@.type==\"Ready\")].status",
		".status.conditions[?(@.type == 'Ready')].status", "..status", ".spec.*", ".spec['a']", ".spec.a .status",
		".metadata.managedFields[0].manager",
		".status.conditions[?(@.type==$.spec.a)].status", ".spec.a,.status", ".spec.b-c[1:2]", ".spec.b-c[-1]", ".spec\\.a",
		".spec.a.x", ".missing.x", "}{.status", ".",
	} {
		f.Add(path, "string", []byte(object))
		f.Add(path, "number", []byte(object))
	}
	f.Fuzz(func(t *testing.T, path, kind string, body []byte) {
		own := []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "C", Type: kind, JSONPath: path}, {Name: "D", Type: "string", JSONPath: ".spec.a"},
		}
		if strings.Contains(path, "*") || strings.Contains(path, "..") {
			return // the first of several members is a random one
		}
		paths := parsePaths(own)
		var content map[string]any
		if paths == nil || json.Unmarshal(body, &content) != nil {
			return
		}
		metadata, _ := content["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		content["metadata"] = metadata
		delete(metadata, "resourceVersion")
		stored, err := wire.Canonical(content)
		if err != nil {
			return
		}
		o, err := wire.NewObject(stored, 7, nil)
		if err != nil {
			return
		}
		_, row := columns(own)
		whole, err := jsontree.Decode(o.JSON())
		if err != nil {
			return
		}
		want := []any{o.Key().Name, cell(paths[0], kind, whole), cell(paths[1], "string", whole)}
		if diff := cmp.Diff(want, row(o)); diff != "" {
			t.Errorf("%s (%s) of %s: %s", path, kind, o.JSON(), diff)
		}
	})
}
