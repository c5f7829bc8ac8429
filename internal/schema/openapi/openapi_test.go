package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/builtin"
	"github.com/gapless-io/gapless/internal/schema/openapi"
)

// get reads a document as a tree.
func get(t *testing.T, h http.Handler, path string) (map[string]any, http.Header) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
	}
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return doc, rec.Header()
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

func TestIndexListsEveryGroupVersionWithItsHash(t *testing.T) {
	h := openapi.New(schema.NewLive(builtin.Catalog()))
	index, _ := get(t, h, "/openapi/v3")
	url := at(t, index, "paths", "apis/apps/v1", "serverRelativeURL").(string)
	if !strings.HasPrefix(url, "/openapi/v3/apis/apps/v1?hash=") {
		t.Errorf("url %q", url)
	}
	if _, header := get(t, h, url); !strings.Contains(header.Get("Cache-Control"), "immutable") {
		t.Errorf("a document asked for by its hash is not cacheable: %v", header)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi/v3/apis/apps/v1?hash=old", nil))
	if rec.Code != http.StatusMovedPermanently || rec.Header().Get("Location") != url {
		t.Errorf("old hash answered %d to %q", rec.Code, rec.Header().Get("Location"))
	}
}

func TestPatchOperationsHaveTheExtensionThatKubectlReads(t *testing.T) {
	h := openapi.New(schema.NewLive(builtin.Catalog()))
	doc, _ := get(t, h, "/openapi/v3/api/v1")
	patch := at(t, doc, "paths", "/api/v1/namespaces/{namespace}/configmaps/{name}", "patch")
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

func TestGoTypesBecomeSchemasWithDescriptionsAndPatchStrategies(t *testing.T) {
	h := openapi.New(schema.NewLive(builtin.Catalog()))
	doc, _ := get(t, h, "/openapi/v3/api/v1")
	spec := at(t, doc, "components", "schemas", "io.k8s.api.core.v1.PodSpec", "properties")
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
	at(t, doc, "components", "schemas", "io.k8s.api.core.v1.Pod", "x-kubernetes-group-version-kind")
}

func TestEveryReferenceHasItsDefinition(t *testing.T) {
	h := openapi.New(schema.NewLive(builtin.Catalog()))
	index, _ := get(t, h, "/openapi/v3")
	for name := range at(t, index, "paths").(map[string]any) {
		doc, _ := get(t, h, "/openapi/v3/"+name)
		schemas := at(t, doc, "components", "schemas").(map[string]any)
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if r, ok := v["$ref"].(string); ok {
					if _, defined := schemas[strings.TrimPrefix(r, "#/components/schemas/")]; !defined {
						t.Errorf("%s: %s is not defined", name, r)
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
		walk(doc)
	}
}
