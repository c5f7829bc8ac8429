package route_test

import (
	"net/http"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// upstreams are the attributes by which upstream's authorizers decide on a request.
func upstreams(r *http.Request) (auth.Attributes, error) {
	factory := &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := factory.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return auth.Attributes{Verb: info.Verb, Path: info.Path}, err
	}
	return auth.Attributes{
		Verb: info.Verb, Resource: kinds.GroupResource{Group: info.APIGroup, Resource: info.Resource}, Version: info.APIVersion,
		Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name,
		FieldSelector: info.FieldSelector, LabelSelector: info.LabelSelector,
	}, nil
}

// TestARequestWithoutAPathIsAboutNoResource is for GET http://host: who may read every resource may not
// do what has no name.
func TestARequestWithoutAPathIsAboutNoResource(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodConnect} {
		r := &http.Request{Method: method, URL: &url.URL{}}
		rt, err := route.Resolve(builtin.Catalog(), r)
		if got := rt.Attributes(r); err != nil || got.Path != "/" {
			t.Errorf("%s is %+v, %v", method, got, err)
		}
	}
}

func TestAttributesAreUpstreams(t *testing.T) {
	paths := []string{
		"/", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/metrics", "/openapi/v2",
		"/openapi/v3/apis/apps/v1", "/version",
		"/livez/ping", "/gapless/v1/compact", "/nothing", "/apis/apps/v1/", "//api/v1/nodes", "/api/v1/nodes/",
		"/api/v1/nodes", "/api/v1/nodes/a", "/api/v1/nodes/a/status", "/api/v1/nodes/a/proxy/x/y", "/api/v1/nodes/a/status/x",
		"/api/v1/namespaces", "/api/v1/namespaces/a", "/api/v1/namespaces/a/status", "/api/v1/namespaces/a/finalize",
		"/api/v1/namespaces/a/pods",
		"/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/a/pods/b/eviction", "/api/v1/namespaces/a/pods/b/log",
		"/api/v1/namespaces/a/serviceaccounts/b/token",
		"/api/v1/namespaces/status", "/api/v1/namespaces/status/status", "/api/v1/namespaces/a/nodes",
		"/api/v1/namespaces/a/nodes/b",
		"/api/v1/pods", "/api/v1/pods/b", "/api/v2/pods", "/api/v1/widgets/b/c",
		"/apis/apps/v1/namespaces/a/deployments/b/scale", "/apis/apps/v1/deployments",
		"/apis/example.org/v1/namespaces/a/widgets",
		"/api/v1/watch/nodes", "/api/v1/watch/nodes/a", "/api/v1/watch/namespaces/a/pods", "/api/v1/watch/namespaces/a/pods/b",
		"/api/v1/watch/namespaces",
		"/api/v1/proxy/nodes/a", "/api/v1/proxy/namespaces/a/pods/b", "/apis/apps/v1/proxy/namespaces/a/deployments/b/x",
		"/api/v1/watch/namespaces/a", "/api/v1/watch/namespaces/a/pods/b/status", "/apis/apps/v1/watch/deployments",
	}
	queries := []string{
		"", "watch=1", "watch=true", "watch=false", "watch=", "fieldSelector=metadata.name%3Dx",
		"watch=1&fieldSelector=metadata.name%3Dx",
		"fieldSelector=metadata.name%21%3Dx", "fieldSelector=metadata.name%3Dx,metadata.namespace%3Dy",
		"fieldSelector=metadata.name%3D..",
		"fieldSelector=metadata.name%3D%3Dx&labelSelector=a%3Db", "labelSelector=a+in+(b)", "fieldSelector=spec.nodeName%3Dx",
		"fieldSelector=%3D%3D%3D",
	}
	catalog := builtin.Catalog()
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		"BREW",
	} {
		for _, path := range paths {
			for _, query := range queries {
				r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}}
				want, err := upstreams(r)
				if err != nil {
					t.Fatalf("%s %s: %v", method, path, err)
				}
				rt, _ := route.Resolve(catalog, r) // what it refuses is authorized as well
				if got := rt.Attributes(r); got != want {
					t.Errorf("%s %s?%s is\n%+v, for upstream\n%+v", method, path, query, got, want)
				}
			}
		}
	}
}
