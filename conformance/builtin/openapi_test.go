package builtin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// markersFile has what upstream's document says and Go types do not.
const markersFile = "../../internal/kinds/openapi/markers.txt"

type definition = map[string]any

// upstreamModule is the directory of k8s.io/kubernetes in the module cache.
func upstreamModule(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	return strings.TrimSpace(string(dir))
}

// upstreamSwagger is the OpenAPI v2 document of k8s.io/kubernetes, which its module contains.
func upstreamSwagger(t *testing.T) (paths map[string]definition, definitions map[string]definition) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(upstreamModule(t), "api/openapi-spec/swagger.json"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	var doc struct {
		Paths, Definitions map[string]definition
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return doc.Paths, doc.Definitions
}

// swagger is this module's.
func swagger(t *testing.T) (paths map[string]definition, definitions map[string]definition) {
	t.Helper()
	f, err := openapi.BuiltIn(openapi.JSON, builtin.Catalog().Resources())
	if err != nil {
		t.Fatalf("built in: %v", err)
	}
	for members, to := range map[string]*map[string]definition{string(f.Paths): &paths, string(f.Definitions): &definitions} {
		if err := json.Unmarshal([]byte("{"+members+"}"), to); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
	}
	return paths, definitions
}

// TestMarkersAreUpstreams compares the table of markers with upstream's document.
func TestMarkersAreUpstreams(t *testing.T) {
	_, theirs := upstreamSwagger(t)
	_, ours := swagger(t)
	for _, doc := range version3(t) {
		maps.Copy(ours, schemasOf(doc))
	}
	types := goTypes()
	lines := []string{
		"# What the Go comments of Kubernetes 1.37 say about its types: see markers.go. Written by conformance/builtin.",
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		_, written := types[name] // by hand: other lists have no Go type in this module
		if of, isList := strings.CutSuffix(name, "List"); theirs[name] != nil && (written || !isList || ours[of] == nil) {
			lines = append(lines, markersOf(name, theirs[name]))
		}
	}
	want := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(markersFile, []byte(want), 0o644); err != nil { //nolint:gosec // it is source
			t.Fatalf("write a file: %v", err)
		}
		return
	}
	got, err := os.ReadFile(markersFile)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is old, run go test -update: %s", markersFile, diff)
	}
}

// markersOf is the line of one type.
func markersOf(name string, def definition) string {
	words := []string{name}
	if required := texts(def["required"]); len(required) > 0 {
		words = append(words, "required="+strings.Join(required, ","))
	}
	if typ := def["x-kubernetes-map-type"]; typ != nil {
		words = append(words, fmt.Sprint("map=", typ))
	}
	props, _ := def["properties"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(props)) {
		prop := props[field].(map[string]any) //nolint:forcetypeassert // upstream's document
		if typ := prop["x-kubernetes-list-type"]; typ != nil {
			word := fmt.Sprint(field, ":", typ)
			if keys := texts(prop["x-kubernetes-list-map-keys"]); len(keys) > 0 {
				word += ":" + strings.Join(keys, ",")
			}
			words = append(words, word)
		}
		if typ := prop["x-kubernetes-map-type"]; typ != nil {
			words = append(words, fmt.Sprint(field, ":map=", typ))
		}
	}
	return strings.Join(words, " ")
}

func texts(list any) []string {
	items, _ := list.([]any)
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = fmt.Sprint(item)
	}
	return all
}

// TestDefinitionsAreUpstreams compares each definition of the OpenAPI v2 document. Not
// compared are the kinds of DeleteOptions, which are one per group upstream.
func TestDefinitionsAreUpstreams(t *testing.T) {
	_, theirs := upstreamSwagger(t)
	_, ours := swagger(t)
	enumerations := generatedDefinitions(t)
	for name, def := range theirs {
		withEnumerations(def, enumerations[name])
	}
	if len(ours) < 400 {
		t.Errorf("%d definitions", len(ours))
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] == nil {
			t.Errorf("upstream has no %s", name)
			continue
		}
		for _, def := range []definition{ours[name], theirs[name]} {
			if strings.HasSuffix(name, ".DeleteOptions") {
				delete(def, "x-kubernetes-group-version-kind")
			}
		}
		if diff := cmp.Diff(theirs[name], ours[name]); diff != "" {
			t.Errorf("%s: - upstream, + gapless\n%s", name, diff)
		}
	}
}

// TestOperationsAreUpstreams compares operations, and the parameters that they have in common.
func TestOperationsAreUpstreams(t *testing.T) {
	theirs, _ := upstreamSwagger(t)
	ours, _ := swagger(t)
	for _, path := range slices.Sorted(maps.Keys(ours)) {
		withoutCBOR(theirs[path])
		for method, value := range ours[path] {
			op, isOp := value.(map[string]any)
			if !isOp { // parameters
				if diff := cmp.Diff(theirs[path][method], value); diff != "" {
					t.Errorf("%s of %s: - upstream, + gapless\n%s", method, path, diff)
				}
				continue
			}
			upstream, _ := theirs[path][method].(map[string]any)
			if upstream == nil {
				t.Errorf("upstream has no %s %s", method, path)
				continue
			}
			for name, got := range op {
				if diff := cmp.Diff(upstream[name], got); diff != "" {
					t.Errorf("%s of %s %s: - upstream, + gapless\n%s", name, method, path, diff)
				}
			}
		}
	}
}
