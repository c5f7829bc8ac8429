package aggregator

import (
	"encoding/json"
	"strings"
	"testing"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// checkVersion holds what clients need of a document, whatever a server behind has sent.
func checkVersion(t *testing.T, v *discoveryv2.APIVersionDiscovery) {
	t.Helper()
	if _, err := json.Marshal(v); err != nil {
		t.Errorf("it cannot be encoded: %v", err)
	}
	for _, r := range v.Resources {
		if r.ResponseKind == nil {
			t.Errorf("%s has no kind", r.Resource)
		}
		for _, sub := range r.Subresources {
			if sub.ResponseKind == nil {
				t.Errorf("%s/%s has no kind", r.Resource, sub.Subresource)
			}
		}
	}
}

// FuzzAggregatedDiscovery reads the document about all groups of a server behind.
func FuzzAggregatedDiscovery(f *testing.F) {
	f.Add([]byte(`{"items":[{"metadata":{"name":"a.b"},"versions":[{"version":"v1","resources":[{"resource":"things",
		"scope":"Namespaced","verbs":["get"],"subresources":[{"subresource":"status","verbs":["get"]}]}]}]}]}`))
	f.Add([]byte(`{"items":[{"versions":[{"resources":[{"responseKind":null}]}]},{"versions":null}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		versions, err := readAggregated(body)
		if err != nil && versions != nil {
			t.Error("there is a document, and an error")
		}
		for gv, v := range versions {
			if v.Version != gv.Version {
				t.Errorf("the document of %s is about %q", gv, v.Version)
			}
			checkVersion(t, v)
		}
	})
}

// FuzzLegacyDiscovery reads the document about one version of a group.
func FuzzLegacyDiscovery(f *testing.F) {
	f.Add([]byte(`{"resources":[{"name":"things","namespaced":true,"kind":"Thing","verbs":["get"]},
		{"name":"things/status","namespaced":true,"kind":"Thing","verbs":["get"]},{"name":"others/scale","kind":"Scale",
		"group":"autoscaling","version":"v1"}]}`))
	f.Add([]byte(`{"resources":[{"name":"a/b/c"},{"name":"/"},{}]}`))
	f.Add([]byte(`{"resources":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := readLegacy(body, schema.GroupVersion{Group: "a.b", Version: "v1"})
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, r := range v.Resources {
			if names[r.Resource] || strings.Contains(r.Resource, "/") {
				t.Errorf("%q stands there twice, or is no resource", r.Resource)
			}
			names[r.Resource] = true
		}
		checkVersion(t, v)
	})
}

// FuzzOpenAPIIndex reads where documents of OpenAPI v3 are: none may lead elsewhere.
func FuzzOpenAPIIndex(f *testing.F) {
	f.Add([]byte(`{"paths":{"apis/a.b/v1":{"serverRelativeURL":"/openapi/v3/apis/a.b/v1?hash=X"}}}`))
	f.Add([]byte(`{"paths":{"apis/a.b/v1":{"serverRelativeURL":"https://example.com/"},"api/v1":{"serverRelativeURL":"/"}}}`))
	f.Add([]byte(`{"paths":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		paths, _ := readPaths(body, "apis/a.b/v1")
		for name, at := range paths {
			if name != "apis/a.b/v1" || !strings.HasPrefix(at, "/openapi/v3/apis/a.b/v1") {
				t.Errorf("%q is at %q", name, at)
			}
		}
	})
}

// FuzzPages reads lists of a server behind: what is named in them is deleted, so that no name may lead elsewhere.
func FuzzPages(f *testing.F) {
	f.Add([]byte(`{"metadata":{"continue":"c"},"items":[{"metadata":{"name":"a","finalizers":["x/y"]}}]}`))
	f.Add([]byte(`{"items":[{"metadata":{"name":"../b"}},{}]}`))
	f.Add([]byte(`{"items":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := readPage(body)
		if err != nil {
			return
		}
		for _, o := range page.Items {
			if o.Name == "" || o.Name == ".." || strings.Contains(o.Name, "/") {
				t.Errorf("there is a name %q", o.Name)
			}
		}
	})
}

// FuzzSwagger reads documents of OpenAPI v2: what is kept of one is about the version, and can be read again.
func FuzzSwagger(f *testing.F) {
	f.Add([]byte(`{"swagger":"2.0","paths":{"/apis/a.b/v1/things":{"get":{"parameters":[{"$ref":"#/parameters/p"}],"responses":
		{"200":{"description":"","schema":{"$ref":"#/definitions/x"}}}}},"/api/v1/pods":{}},"definitions":{"x":{"properties":{
		"y":{"$ref":"#/definitions/x"}},"x-kubernetes-group-version-kind":[{"group":"","version":"v1","kind":"Pod"}]}},
		"parameters":{"p":{"name":"p","in":"query","type":"string"}}}`))
	f.Add([]byte(`{"paths":{"/apis/a.b/v1/":[]}}`))
	f.Add([]byte(`{"paths":{"/apis/a.b/v1/":{"$ref":{}}},"definitions":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := ReadSwagger(body, schema.GroupVersion{Group: "a.b", Version: "v1"})
		if err != nil || s.zipped == nil {
			return
		}
		said, err := s.Read()
		if err != nil {
			t.Fatalf("it cannot be read again: %v", err)
		}
		for path := range said.Paths {
			if !strings.HasPrefix(path, "/apis/a.b/v1/") {
				t.Errorf("there is a path %q", path)
			}
		}
		for _, form := range []openapi.Form{openapi.JSON, openapi.Protobuf} {
			if _, err := said.Fragment(form); err != nil {
				t.Errorf("in form %d: %v", form, err)
			}
		}
	})
}
