package route_test

import (
	"net/http"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// FuzzResolve compares what a path and a method mean with upstream's reader of both,
// for all that is served; what is not served is upstream's business elsewhere.
func FuzzResolve(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET", "/api/v1/namespaces/default/configmaps", ""},
		{"GET", "/api/v1/namespaces/default/configmaps", "watch=1"},
		{"GET", "/api/v1/namespaces/default/configmaps/a", "watch=1"},
		{"GET", "/api/v1/watch/namespaces/default/configmaps/a", ""},
		{"GET", "/api/v1/watch/namespaces", ""},
		{"GET", "/api/v1/configmaps/", "watch=false"},
		{"POST", "/api/v1/namespaces", ""},
		{"PUT", "/api/v1/namespaces/a/finalize", ""},
		{"PATCH", "/api/v1/namespaces/a/status", ""},
		{"DELETE", "/api/v1/namespaces/a/pods", ""},
		{"POST", "/api/v1/namespaces/a/pods/b/eviction", ""},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale", ""},
		{"DELETE", "/apis/apps/v1/namespaces/a/deployments/b", ""},
		{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a", ""},
		{"GET", "/api/v1/namespaces/status/status", ""},
		{"GET", "/api/v1/namespaces/default/configmaps/%2e%2e", ""},
		{"GET", "/api/v1/namespaces//configmaps", ""},
		{"GET", "//api/v1/nodes", ""},
		{"BREW", "/api/v1/nodes", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	catalog := builtin.Catalog()
	upstream := &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		u.RawQuery = query
		r := &http.Request{Method: method, URL: u}
		got, err := route.Resolve(catalog, r)
		// What is decided on is what upstream decides on, also where nothing is served.
		if want, err := upstreams(r); err == nil && u.Path != "" {
			if a := got.Attributes(r); a != want {
				t.Errorf("%s %s is authorized as\n%+v, by upstream as\n%+v", method, u, a, want)
			}
		}
		if err != nil {
			if code := wire.StatusOf(err).Code; code != 400 && code != 404 && code != 405 {
				t.Fatalf("%s %s: %d %v", method, u, code, err)
			}
			return
		}
		if got.Resource == nil {
			return
		}
		want, err := upstream.NewRequestInfo(r)
		if err != nil || !want.IsResourceRequest {
			t.Fatalf("%s %s is %+v, and nothing for upstream: %v", method, u, got.Target, err)
		}
		if want.Resource == "namespaces" {
			want.Namespace = "" // upstream's authorizers take the object's own namespace for its scope
		}
		if got.Name == "" {
			want.Name = "" // upstream reads a field selector for its authorizers
		}
		type meaning struct{ verb, group, version, resource, subresource, namespace, name string }
		a := meaning{
			string(got.Verb), got.Resource.Group, got.Resource.Version, got.Resource.Plural, got.Subresource, got.Namespace,
			got.Name,
		}
		b := meaning{want.Verb, want.APIGroup, want.APIVersion, want.Resource, want.Subresource, want.Namespace, want.Name}
		if a != b {
			t.Errorf("%s %s is\n%+v, for upstream\n%+v", method, u, a, b)
		}
	})
}
