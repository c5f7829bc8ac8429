package aggregator

import (
	"encoding/json"
	"strings"
	"testing"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
