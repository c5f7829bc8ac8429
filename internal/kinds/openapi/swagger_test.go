package openapi_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// tree reads the members of a fragment.
func tree(t *testing.T, members []byte) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(slices.Concat([]byte("{"), members, []byte("}")), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func builtIn(t *testing.T) (paths, definitions map[string]any) {
	t.Helper()
	f, err := openapi.BuiltIn(openapi.JSON, builtin.Catalog().Resources())
	if err != nil {
		t.Fatal(err)
	}
	return tree(t, f.Paths), tree(t, f.Definitions)
}

func customResource(schemaText string) *kinds.Resource {
	return &kinds.Resource{
		Custom: true, Group: "t.example.com", Version: "v1", Kind: "Foo", ListKind: "FooList", Plural: "foos", Namespaced: true,
		HasStatus: true,
		Verbs:     []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Writes:    kinds.Writes{PatchTypes: []string{"application/json-patch+json", "application/merge-patch+json"}},
		OpenAPI:   []byte(schemaText),
	}
}

// customDefinition is what version 2 says of a schema.
func customDefinition(t *testing.T, schemaText string) map[string]any {
	t.Helper()
	f, err := openapi.Custom(openapi.JSON, customResource(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	return at(t, tree(t, f.Definitions), "com.example.t.v1.Foo").(map[string]any)
}

func TestVersion2HasWhatOldClientsRead(t *testing.T) {
	paths, definitions := builtIn(t)
	containers := at(t, definitions, "io.k8s.api.core.v1.PodSpec", "properties", "containers")
	if at(t, containers, "x-kubernetes-patch-merge-key") != "name" || at(t, containers, "x-kubernetes-list-type") != "map" {
		t.Errorf("containers: %v", containers)
	}
	if required := at(t, definitions, "io.k8s.api.core.v1.PodSpec", "required"); len(required.([]any)) != 1 {
		t.Errorf("pods require %v", required)
	}
	at(t, definitions, "io.k8s.api.core.v1.PodList", "x-kubernetes-group-version-kind")
	patch := at(t, paths, "/apis/apps/v1/namespaces/{namespace}/deployments/{name}", "patch")
	if at(t, patch, "operationId") != "patchAppsV1NamespacedDeployment" || at(t, patch, "x-kubernetes-action") != "patch" {
		t.Errorf("patch: %v", patch)
	}
	names := ""
	for _, p := range at(t, patch, "parameters").([]any) {
		if name, ok := p.(map[string]any)["name"].(string); ok {
			names += name + " "
		}
	}
	if names != "dryRun fieldValidation " {
		t.Errorf("parameters that are no references: %q; kubectl before 1.27 looks for dryRun and fieldValidation", names)
	}
}

func TestReferencesOfVersion2HaveTheirDefinitions(t *testing.T) {
	paths, definitions := builtIn(t)
	f, err := openapi.Custom(openapi.JSON, customResource(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	own := tree(t, f.Definitions)
	maps.Copy(own, definitions)
	defined(t, "built-in", "#/definitions/", definitions, paths, definitions)
	defined(t, "custom", "#/definitions/", own, tree(t, f.Paths), own)
}

func TestCustomSchemasAreWhatVersion2CanSay(t *testing.T) {
	def := customDefinition(t, `{"type":"object","properties":{"spec":{"type":"object","required":["a","b"],"properties":{
"a":{"type":"string","nullable":true},"b":{"x-kubernetes-int-or-string":true},"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"one":{"type":"string","oneOf":[{"pattern":"a"}]},"pod":{"type":"object","x-kubernetes-embedded-resource":true}}}}}`)
	spec := at(t, def, "properties", "spec", "properties").(map[string]any)
	for name, want := range map[string]string{
		"a": `{}`, "b": `{"x-kubernetes-int-or-string":true}`, "any": `{"x-kubernetes-preserve-unknown-fields":true}`,
		"one": `{"type":"string"}`,
	} {
		if got, _ := json.Marshal(spec[name]); string(got) != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if required := at(t, def, "properties", "spec", "required").([]any); len(required) != 1 || required[0] != "b" {
		t.Errorf("required %v", required)
	}
	at(t, spec, "pod", "properties", "metadata", "$ref")
	at(t, def, "properties", "metadata", "$ref")
}

func TestSchemasOfAnyContentHaveNoProperties(t *testing.T) {
	for _, text := range []string{
		"", `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}`, `{"type":7}`,
		`{`,
	} {
		def := customDefinition(t, text)
		if def["properties"] != nil || def["type"] != "object" || def["x-kubernetes-group-version-kind"] == nil {
			t.Errorf("%q: %v", text, def)
		}
	}
}

// A schema that is stored is one that was validated, but both encodings must survive any.
func FuzzCustom(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","default":"x","enum":["x",1.5,null]}}}}`)
	f.Add(`{"type":"object","additionalProperties":{"x-kubernetes-embedded-resource":true},"required":["a"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, form := range []openapi.Form{openapi.JSON, openapi.Protobuf, openapi.JSON3} {
			if _, err := openapi.Custom(form, customResource(text)); err != nil {
				t.Fatalf("form %d: %v", form, err)
			}
		}
	})
}
