package openapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// version3 are the paths and definitions of the built-in kinds of a group and version.
func version3(t *testing.T, document string) (paths, definitions map[string]any) {
	t.Helper()
	of := slices.DeleteFunc(builtin.Catalog().Resources(), func(r *kinds.Resource) bool {
		return openapi.Document3(r) != document
	})
	f, err := openapi.BuiltIn3(of)
	if err != nil {
		t.Fatal(err)
	}
	return tree(t, f.Paths), tree(t, f.Definitions)
}

// at walks down a tree.
func at(t *testing.T, doc any, path ...string) any {
	t.Helper()
	for _, step := range path {
		m, ok := doc.(map[string]any)
		if !ok || m[step] == nil {
			t.Fatalf("nothing at %q of %v in %v", step, path, doc)
		}
		doc = m[step]
	}
	return doc
}

func TestPatchOperationsHaveTheExtensionThatKubectlReads(t *testing.T) {
	paths, _ := version3(t, "api/v1")
	patch := at(t, paths, "/api/v1/namespaces/{namespace}/configmaps/{name}", "patch")
	at(t, patch, "requestBody", "content", "application/strategic-merge-patch+json")
	if kind := at(t, patch, "x-kubernetes-group-version-kind", "kind"); kind != "ConfigMap" {
		t.Errorf("kind %v", kind)
	}
	names := ""
	for _, p := range at(t, patch, "parameters").([]any) {
		names += at(t, p, "name").(string) + " "
	}
	if !strings.Contains(names, "fieldValidation") || !strings.Contains(names, "dryRun") {
		t.Errorf("parameters %q", names)
	}
}

func TestGoTypesBecomeSchemasWithWhatTheirCommentsSay(t *testing.T) {
	_, definitions := version3(t, "api/v1")
	spec := at(t, definitions, "io.k8s.api.core.v1.PodSpec", "properties")
	containers := at(t, spec, "containers")
	if key := at(t, containers, "x-kubernetes-patch-merge-key"); key != "name" {
		t.Errorf("merge key %v", key)
	}
	if text := at(t, containers, "description").(string); !strings.Contains(text, "containers") {
		t.Errorf("description %q", text)
	}
	if typ := at(t, spec, "terminationGracePeriodSeconds", "type"); typ != "integer" {
		t.Errorf("type %v", typ)
	}
	at(t, definitions, "io.k8s.api.core.v1.Pod", "x-kubernetes-group-version-kind")
	protocol := at(t, definitions, "io.k8s.api.core.v1.ContainerPort", "properties", "protocol")
	if fmt.Sprint(at(t, protocol, "enum")) != "[SCTP TCP UDP]" || at(t, protocol, "default") != "TCP" ||
		!strings.HasSuffix(at(t, protocol, "description").(string),
			"\n\nPossible enum values:\n - `\"SCTP\"` is the SCTP protocol.\n"+
				" - `\"TCP\"` is the TCP protocol.\n - `\"UDP\"` is the UDP protocol.") {
		t.Errorf("protocol: %v", protocol)
	}
}

// TestEveryReferenceOfVersion3HasItsDefinition in its own document.
func TestEveryReferenceOfVersion3HasItsDefinition(t *testing.T) {
	byDocument := map[string][]*kinds.Resource{}
	for _, r := range builtin.Catalog().Resources() {
		byDocument[openapi.Document3(r)] = append(byDocument[openapi.Document3(r)], r)
	}
	for name := range byDocument {
		paths, definitions := version3(t, name)
		defined(t, name, "#/components/schemas/", definitions, paths, definitions)
	}
	r := customResource(`{"type":"object","properties":{"pod":{"type":"object","x-kubernetes-embedded-resource":true}}}`)
	r.Scale = &kinds.ScalePaths{}
	shared, err := openapi.Shared3([]*kinds.Resource{r})
	if err != nil {
		t.Fatal(err)
	}
	own, err := openapi.Custom(openapi.JSON3, r)
	if err != nil {
		t.Fatal(err)
	}
	definitions := tree(t, own.Definitions)
	maps.Copy(definitions, tree(t, shared.Definitions))
	defined(t, "custom", "#/components/schemas/", definitions, tree(t, own.Paths), definitions)
	for _, document := range []string{"api", "apis", "version", "apis/apps"} {
		f, err := openapi.Discovery3(document)
		if err != nil {
			t.Fatal(err)
		}
		definitions := tree(t, f.Definitions)
		defined(t, document, "#/components/schemas/", definitions, tree(t, f.Paths), definitions)
	}
}

// defined checks that all references in trees that begin with prefix are to definitions.
func defined(t *testing.T, name, prefix string, definitions map[string]any, trees ...map[string]any) {
	t.Helper()
	found := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if to, ok := strings.CutPrefix(fmt.Sprint(v["$ref"]), prefix); ok {
				if found++; definitions[to] == nil {
					t.Errorf("%s: %s is not defined", name, to)
				}
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	for _, tree := range trees {
		walk(tree)
	}
	if found == 0 {
		t.Errorf("%s has no references", name)
	}
}
