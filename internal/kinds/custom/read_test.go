package custom

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// loosened makes some parts of a schema keep unknown fields, and others embedded objects.
func loosened(r *rand.Rand, s *structuralschema.Structural) {
	if s.Type == "object" {
		s.XPreserveUnknownFields = r.IntN(6) == 0
		s.XEmbeddedResource = r.IntN(8) == 0
	}
	for name, property := range s.Properties {
		loosened(r, &property)
		s.Properties[name] = property
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		loosened(r, s.AdditionalProperties.Structural)
	}
	if s.Items != nil {
		loosened(r, s.Items)
	}
}

// readByUpstream is what upstream makes of stored content (apiextensions-apiserver
// customresource_handler.go unstructuredSchemaCoercer, unstructuredDefaulter).
func readByUpstream(t *testing.T, content map[string]any, s *structuralschema.Structural) map[string]any {
	t.Helper()
	pruning.Prune(content, s, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, s)
	if err := objectmeta.Coerce(nil, content, s, false, true); err != nil {
		t.Fatal(err)
	}
	defaulting.Default(content, s)
	return content
}

// TestReadFormsAreThoseOfUpstream reads values that one schema allows by another one. What is
// found to be in its read form without decoding it is so, and most objects are found so.
func TestReadFormsAreThoseOfUpstream(t *testing.T) {
	changed, same, quick := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 12))
		before, after := randomSchema(r, 0), randomSchema(r, 0)
		if r.IntN(2) == 0 {
			after = before
		}
		whole, err := structuralschema.NewStructural(after)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		withDefaults(r, after, whole)
		if r.IntN(2) == 0 {
			loosened(r, whole)
		}
		root := &structuralschema.Structural{
			Generic: structuralschema.Generic{Type: "object"}, Properties: map[string]structuralschema.Structural{"spec": *whole},
		}
		typ := newType(&kinds.Resource{Group: "g", Version: "v1", Kind: "Foo"}, false)
		typ.shapes.compile = func() (*shape, error) {
			return &shape{
				props: &apiextensions.JSONSchemaProps{}, structural: root, members: membersOf(root), growth: growthOf(root),
			}, nil
		}
		for range 5 {
			stored := map[string]any{
				"apiVersion": "g/v1", "kind": "Foo", "metadata": map[string]any{"name": "a", "generation": int64(1)},
				"spec": randomValue(r, before),
			}
			value, err := wire.Canonical(stored)
			if err != nil {
				t.Fatal(err)
			}
			o, err := wire.NewObject(value, 7, nil)
			if err != nil {
				t.Fatal(err)
			}
			content, err := jsontree.Decode(value)
			if err != nil {
				t.Fatal(err)
			}
			want, err := wire.Canonical(readByUpstream(t, runtime.DeepCopyJSON(content), root))
			if err != nil {
				t.Fatal(err)
			}
			form := typ.read(o)
			if diff := cmp.Diff(string(want), string(form.Value())); diff != "" {
				t.Fatalf("seed %d: of %s (-want +got):\n%s", seed, value, diff)
			}
			unchanged := string(want) == string(value)
			if unchanged != (form == o) {
				t.Fatalf("seed %d: %s: unchanged is %t, and the object itself is returned: %t", seed, value, unchanged, form == o)
			}
			shape, _ := typ.shapes.get()
			switch found := shape.members.readForm(o.Content()); {
			case found && !unchanged:
				t.Fatalf("seed %d: %s is said to be %s", seed, value, want)
			case found:
				quick++
			case unchanged:
				same++
			default:
				changed++
			}
		}
	}
	t.Logf("%d read forms are others, %d objects were found to be in theirs, %d not", changed, quick, same)
	if changed < 1000 || quick < 4*same {
		t.Errorf("%d read forms are others, %d objects were found to be in theirs, %d not", changed, quick, same)
	}
}

// BenchmarkRead finds that an object of 1.2 KB is in its read form, and makes the read form of one
// that is not.
func BenchmarkRead(b *testing.B) {
	const properties = `{"type":"object","properties":{"spec":{"type":"object","properties":{"payload":{"type":"string"},
"list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string","default":"v"}}}}}}}}`
	for name, missing := range map[string]string{"same": `,"value":"some-value"`, "changed": ``} {
		b.Run(name, func(b *testing.B) {
			item := `{"name":"some-name"` + missing + `}`
			value := `{"apiVersion":"g/v1","kind":"Foo","metadata":{"name":"a","generation":1},"spec":{"list":[` + item +
				strings.Repeat(","+item, 20) +
				`],"payload":"` + strings.Repeat("x", 300) + `"}}`
			o, err := wire.NewObject([]byte(value), 7, nil)
			if err != nil {
				b.Fatal(err)
			}
			t := newType(&kinds.Resource{Group: "g", Version: "v1", Kind: "Foo", OpenAPI: []byte(properties)}, false)
			if changed := t.read(o) != o; changed != (missing == "") {
				b.Fatalf("changed: %t", changed)
			}
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				t.read(o)
			}
		})
	}
}
