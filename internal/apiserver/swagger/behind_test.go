package swagger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/swagger"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// document is one of a server behind: with a path of a version that refers to definitions and parameters, given by their
// values, and what the version is nothing to.
func document(path string, definitions, parameters map[string]any) []byte {
	refs, params := map[string]any{}, []any{}
	for name := range definitions {
		refs[name] = map[string]any{"$ref": "#/definitions/" + name}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		params = append(params, map[string]any{"$ref": "#/parameters/" + name})
	}
	all := maps.Clone(definitions)
	all["root"+strings.ReplaceAll(path, "/", ".")] = map[string]any{"type": "object", "properties": refs}
	all["foreign"] = map[string]any{"type": "object"}
	text, err := json.Marshal(map[string]any{
		"swagger": "2.0", "info": map[string]any{"title": "t", "version": "v"}, "definitions": all, "parameters": parameters,
		"paths": map[string]any{
			path + "things": map[string]any{"get": map[string]any{"parameters": params, "responses": map[string]any{
				"200": map[string]any{"description": "OK", "schema": map[string]any{
					"$ref": "#/definitions/root" + strings.ReplaceAll(path, "/", "."),
				}},
			}}},
			"/api/v1/namespaces": map[string]any{"get": map[string]any{"responses": map[string]any{
				"200": map[string]any{"description": "mine", "schema": map[string]any{"$ref": "#/definitions/foreign"}},
			}}},
		},
	})
	if err != nil {
		panic(err)
	}
	return text
}

func parse(t *testing.T, text []byte) *spec.Swagger {
	t.Helper()
	var parsed spec.Swagger
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatalf("decode the document: %v", err)
	}
	return &parsed
}

// TestServersBehindAreMergedAsUpstream compares with kube-openapi's own merge: with definitions and parameters that are
// equal to those that are here, that differ, that differ in the same way in two documents, and whose new name is taken.
func TestServersBehindAreMergedAsUpstream(t *testing.T) {
	d, catalog := swagger.New(), builtin.Catalog().With(define(t, "Foo", `{}`)...)
	plain := get(t, build(t, d, catalog, openapi.JSON)).Body.Bytes()
	var here struct{ Definitions, Parameters map[string]any }
	if err := json.Unmarshal(plain, &here); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	const listMeta, pod, foo = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", "io.k8s.api.core.v1.Pod", "com.example.t.v1.Foo"
	other := func(text string) any { return map[string]any{"description": text, "type": "object"} }
	param := slices.Sorted(maps.Keys(here.Parameters))[0]
	query := map[string]any{"name": "q", "in": "query", "type": "string"}
	documents := []struct {
		path string
		text []byte
	}{
		{"/apis/a.example.com/v1/", document("/apis/a.example.com/v1/",
			map[string]any{
				listMeta: here.Definitions[listMeta], pod: other("mine"), foo: other("mine"), foo + "_v2": other("second"),
			},
			map[string]any{param: query, "own": query})},
		{"/apis/a.example.com/v2/", document("/apis/a.example.com/v2/",
			map[string]any{pod: other("mine"), foo: other("another")}, map[string]any{param: query})},
		{"/apis/t.example.com/v1/", document("/apis/t.example.com/v1/", map[string]any{pod: other("third")},
			map[string]any{"own": map[string]any{"name": "other", "in": "query", "type": "string"}})},
	}
	want := parse(t, plain)
	var behind []*aggregator.Swagger
	for _, doc := range documents {
		filtered := upstream.FilterSpecByPathsWithoutSideEffects(parse(t, doc.text), []string{doc.path})
		if err := upstream.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(want, filtered); err != nil {
			t.Fatalf("merge: %v", err)
		}
		part := strings.Split(doc.path, "/")
		said, err := aggregator.ReadSwagger(doc.text, schema.GroupVersion{Group: part[2], Version: part[3]})
		if err != nil {
			t.Fatalf("read the document: %v", err)
		}
		behind = append(behind, said)
	}
	made, err := d.Build(t.Context(), catalog, behind, openapi.JSON)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	got := parse(t, get(t, made).Body.Bytes())
	if want.Definitions[foo+"_v2"].Description != "second" || want.Definitions[foo+"_v4"].Description != "another" {
		t.Errorf("upstream has %v: the test is no longer about clashes", slices.Sorted(maps.Keys(want.Definitions)))
	}
	for what, all := range map[string][2]any{
		"paths": {want.Paths, got.Paths}, "definitions": {want.Definitions, got.Definitions},
		"parameters": {want.Parameters, got.Parameters},
	} {
		if diff := cmp.Diff(tree(t, all[0]), tree(t, all[1])); diff != "" {
			t.Errorf("%s (- upstream):\n%s", what, diff)
		}
	}
	in, err := d.Build(t.Context(), catalog, behind, openapi.Protobuf)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	var message openapiv2.Document
	if err := proto.Unmarshal(get(t, in).Body.Bytes(), &message); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	names := map[string]bool{}
	for _, def := range message.GetDefinitions().GetAdditionalProperties() {
		names[def.GetName()] = true
	}
	if len(names) != len(got.Definitions) || len(message.GetPaths().GetPath()) != len(got.Paths.Paths) ||
		len(message.GetParameters().GetAdditionalProperties()) != len(got.Parameters) {
		t.Errorf("the protobuf has %d definitions, %d paths, %d parameters; the JSON %d, %d, %d", len(names),
			len(message.GetPaths().GetPath()), len(message.GetParameters().GetAdditionalProperties()), len(got.Definitions),
			len(got.Paths.Paths), len(got.Parameters))
	}
	if d.Built(catalog, behind, openapi.JSON) != made || d.Built(catalog, behind[:2], openapi.JSON) != nil ||
		d.Built(catalog, nil, openapi.JSON) != nil {
		t.Error("a document is kept for others than it was built of")
	}
	if again := get(t, build(t, d, catalog, openapi.JSON)).Body.String(); again != string(plain) {
		t.Error("without the servers the document is another one than before")
	}
}

func tree(t *testing.T, v any) (all any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatalf("as a tree: %v", err)
	}
	return all
}

// TestAServerBehindSpeaksForItsVersionOnly holds what is not taken of documents.
func TestAServerBehindSpeaksForItsVersionOnly(t *testing.T) {
	gv := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
	of := func(definition string) string {
		return fmt.Sprintf(`{"paths":{"/apis/a.example.com/v1/x":{"get":{"responses":{"200":{"description":"","schema":{
			"$ref":"#/definitions/x"}}}}}},"definitions":{"x":%s}}`, definition)
	}
	said, err := aggregator.ReadSwagger([]byte(of(`{"x-kubernetes-group-version-kind":[
		{"group":"","version":"v1","kind":"Pod"},{"group":"a.example.com","version":"v1","kind":"X"}]}`)), gv)
	if err != nil {
		t.Fatalf("read the document: %v", err)
	}
	o, err := said.Read()
	if err != nil {
		t.Fatalf("read it again: %v", err)
	}
	want := map[string]any{"x": map[string]any{"x-kubernetes-group-version-kind": []any{
		map[string]any{"group": "a.example.com", "version": "v1", "kind": "X"},
	}}}
	if diff := cmp.Diff(want, o.Definitions); diff != "" {
		t.Errorf("definitions: %s", diff)
	}
	for name, text := range map[string]string{
		"no document":       `[]`,
		"no definition":     of(`[]`),
		"many values":       of(`{"enum":[` + strings.Repeat("1,", 1<<18) + `1]}`),
		"many more values":  of(`{"enum":[` + strings.Repeat("1,", 1<<20) + `1]}`),
		"no path item":      `{"paths":{"/apis/a.example.com/v1/x":1}}`,
		"not even a string": `{"paths":{"/apis/a.example.com/v1/x":{"get":{"operationId":[]}}}}`,
	} {
		if _, err := aggregator.ReadSwagger([]byte(text), gv); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// BenchmarkBehind builds a document again of which only what a server behind says has changed.
func BenchmarkBehind(b *testing.B) {
	d, catalog := swagger.New(), builtin.Catalog()
	gv := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
	var said [2][]*aggregator.Swagger
	for i := range said {
		one, err := aggregator.ReadSwagger(document("/apis/a.example.com/v1/",
			map[string]any{"io.k8s.api.core.v1.Pod": map[string]any{"description": fmt.Sprint(i)}}, nil), gv)
		if err != nil {
			b.Fatalf("read the document: %v", err)
		}
		said[i] = []*aggregator.Swagger{one}
	}
	build(b, d, catalog, openapi.JSON)
	for n := 0; b.Loop(); n++ {
		if _, err := d.Build(b.Context(), catalog, said[n%2], openapi.JSON); err != nil {
			b.Fatalf("build: %v", err)
		}
	}
	text := get(b, build(b, d, catalog, openapi.JSON)).Body.String()
	b.ReportMetric(float64(strings.Count(text, ",")+strings.Count(text, "{")+strings.Count(text, "[")), "values")
}
