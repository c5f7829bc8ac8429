package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

const (
	aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	aggregatedCore = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{},` +
		`"versions":[{"version":"v1","resources":[
		{"resource":"pods","responseKind":{"version":"v1","kind":"Pod"},"scope":"Namespaced","singularResource":"pod","shortNames":["po"],"verbs":["list","watch"],"categories":["all"]},
		{"resource":"nodes","responseKind":{"version":"v1","kind":"Node"},"scope":"Cluster","singularResource":"node","shortNames":["no"],"verbs":["list"]},
		{"resource":"events","responseKind":{"version":"v1","kind":"Event"},"scope":"Namespaced","singularResource":"event","shortNames":["ev"],"verbs":["list"]}]}]}]}`
	aggregatedGroups = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
		{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","shortNames":["deploy"],"verbs":["list"]}]}]},
		{"metadata":{"name":"events.k8s.io"},"versions":[{"version":"v1","resources":[{"resource":"events","responseKind":{"kind":"Event"},"scope":"Namespaced","singularResource":"event","verbs":["list"]}]}]},
		{"metadata":{"name":"t.example.com"},"versions":[
			{"version":"v2","resources":[{"resource":"foos","responseKind":{"kind":"Foo"},"scope":"Namespaced","singularResource":"foo","verbs":["list"]}]},
			{"version":"v1","resources":[{"resource":"foos","responseKind":{"kind":"Foo"},"scope":"Namespaced","singularResource":"foo","verbs":["list"]},
				{"resource":"bars","scope":"Namespaced","singularResource":"bar","verbs":["list"]}]}]}]}`
)

// legacy are the answers of a server without aggregated discovery.
func legacy() map[string]string {
	return map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods",` +
			`"singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po"],"verbs":["list"]},{"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get"]},{"name":"nodes","singularName":"node","kind":"Node","shortNames":["no"],"verbs":["list"]},{"name":"events","singularName":"event","namespaced":true,"kind":"Event","shortNames":["ev"],"verbs":["list"]}]}`,
		"/apis": `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1",` +
			`"version":"v1"}],"preferredVersion":{"version":"v1"}},{"name":"t.example.com","versions":[{"version":"v1"},{"version":"v2"}],"preferredVersion":{"version":"v2"}},{"name":"down.example.com","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","resources":[{"name":"deployments","singularName":"deployment",` +
			`"namespaced":true,"kind":"Deployment","shortNames":["deploy"],"verbs":["list"]}]}`,
		"/apis/t.example.com/v1": `{"kind":"APIResourceList","resources":[{"name":"foos","singularName":"foo",` +
			`"namespaced":true,"kind":"Foo","verbs":["list"]},{"name":"bars","singularName":"bar","namespaced":true,"kind":"Bar","verbs":["list"]}]}`,
		"/apis/t.example.com/v2": `{"kind":"APIResourceList","resources":[{"name":"foos","singularName":"foo",` +
			`"namespaced":true,"kind":"Foo","verbs":["list"]}]}`,
	}
}

func discoveryServer(answers map[string]string, contentType string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, is := answers[strings.TrimPrefix(r.URL.Path, "/prefix")]
		if !is {
			http.Error(rw, "down", http.StatusServiceUnavailable)
			return
		}
		rw.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(rw, body)
	}
}

func TestResourceIsFoundByItsNamesInKubectl(t *testing.T) {
	servers := map[string]http.HandlerFunc{
		"aggregated": discoveryServer(map[string]string{"/api": aggregatedCore, "/apis": aggregatedGroups}, aggregatedType),
		"legacy":     discoveryServer(legacy(), "application/json"),
	}
	for kind, h := range servers {
		t.Run(kind, func(t *testing.T) {
			c := serve(t, h, false)
			for name, want := range map[string]string{
				"pods": "/v1, Resource=pods", "pod": "/v1, Resource=pods", "po": "/v1, Resource=pods",
				"Pod": "/v1, Resource=pods", "PODS": "/v1, Resource=pods",
				"no": "/v1, Resource=nodes", "pods.v1": "/v1, Resource=pods", "events": "/v1, Resource=events",
				"deploy": "apps/v1, Resource=deployments", "deployments.apps": "apps/v1, Resource=deployments",
				"deployments.v1.apps": "apps/v1, Resource=deployments",
				"foos":                "t.example.com/v2, Resource=foos", "foos.t.example.com": "t.example.com/v2, Resource=foos",
				"foos.v1.t.example.com": "t.example.com/v1, Resource=foos",
				"bars":                  "t.example.com/v1, Resource=bars",
				"bar.t.example.com":     "t.example.com/v1, Resource=bars",
			} {
				r, err := c.ResourceFor(t.Context(), name)
				if err != nil || r.String() != want {
					t.Errorf("%s: %s (%v), want %s", name, r.String(), err, want)
				}
				if got := r.In("x").Namespace; (got == "x") != (r.Resource != "nodes") {
					t.Errorf("%s: namespace %q", name, got)
				}
			}
		})
	}
}

func TestUnknownResourceErrorSuggestsSimilarNames(t *testing.T) {
	c := serve(t, discoveryServer(map[string]string{"/api": aggregatedCore, "/apis": aggregatedGroups}, aggregatedType), false)
	_, err := c.ResourceFor(t.Context(), "deplyments")
	missing, is := errors.AsType[*client.NoResourceError](err)
	if !is || len(missing.Near) != 1 || missing.Near[0] != "deployments.apps" || !strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
}

func TestUnavailableGroupDoesNotHideOthers(t *testing.T) {
	c := serve(t, discoveryServer(legacy(), "application/json"), false)
	all, err := c.Resources(t.Context())
	if len(all) != 7 || kube.Classify(err) != kube.OutcomeServerError {
		t.Errorf("%d resources, %v", len(all), err)
	}
	if _, err := c.ResourceFor(t.Context(), "nothing"); kube.Classify(err) != kube.OutcomeServerError {
		t.Errorf("a type that could be in the group that is down: %v", err)
	}
}

func TestInvalidDiscoveryAnswersAreErrors(t *testing.T) {
	for _, body := range []string{
		``, `7`, `{}`, `{"kind":"PodList"}`, `{"kind":"APIGroupDiscoveryList","items":7}`, `{"kind":"APIVersions","versions":7}`,
	} {
		c := serve(t, discoveryServer(map[string]string{"/api": body, "/apis": body}, "application/json"), false)
		if _, err := c.Resources(t.Context()); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
}
