package apiserver_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestPathsAndMethodsMapToVerbs(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	const (
		deployments = "/apis/apps/v1/namespaces/default/deployments"
		deployment  = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},` +
			`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
		notFound   = "404 NotFound"
		notAllowed = "405 MethodNotAllowed"
	)
	for _, c := range []struct{ name, method, path, body, want string }{
		{"collection", "GET", configMaps, "", "200 ConfigMapList"},
		{"collection with a slash at the end", "GET", configMaps + "/", "", "200 ConfigMapList"},
		{"all namespaces", "GET", "/api/v1/configmaps", "", "200 ConfigMapList"},
		{"one object", "GET", configMaps + "/a", "", "200 ConfigMap"},
		{"one object, escaped", "GET", "/api/v1/namespaces/default/config%6Daps/%61", "", "200 ConfigMap"},
		{"watch of a name is a get", "GET", configMaps + "/a?watch=1", "", "200 ConfigMap"},
		{"watch=false is a list", "GET", configMaps + "?watch=false", "", "200 ConfigMapList"},
		{"a namespace as an object", "GET", "/api/v1/namespaces/default", "", "200 Namespace"},
		{"a namespace's status", "GET", "/api/v1/namespaces/default/status", "", "200 Namespace"},
		{"namespaces", "GET", "/api/v1/namespaces", "", "200 NamespaceList"},
		{"another group", "POST", deployments, deployment, "201 Deployment"},
		{"status", "GET", deployments + "/d/status", "", "200 Deployment"},
		{"scale", "GET", deployments + "/d/scale", "", "200 Scale"},
		{
			"scale by PUT", "PUT", deployments + "/d/scale",
			`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":3}}`,
			"200 Scale",
		},
		{"create in no namespace", "POST", "/api/v1/configmaps", "{}", notAllowed},
		{"create with a name in the path", "POST", configMaps + "/a", "{}", notAllowed},
		{"put of a collection", "PUT", configMaps, "{}", notAllowed},
		{"patch of a collection", "PATCH", configMaps, "{}", notAllowed},
		{"delete of all namespaces' objects", "DELETE", "/api/v1/configmaps", "", notAllowed},
		{"delete of all namespaces", "DELETE", "/api/v1/namespaces", "", notAllowed},
		{"delete of a status", "DELETE", deployments + "/d/status", "", notAllowed},
		{"post to a scale", "POST", deployments + "/d/scale", "{}", notAllowed},
		{"an unknown method", "BREW", configMaps, "", notAllowed},
		{"a method that a document has not", "DELETE", "/version", "", notAllowed},
		{"a write below /watch/", "POST", "/api/v1/watch/namespaces/default/configmaps", "{}", notAllowed},
		{"unknown resource", "GET", "/api/v1/nopes", "", notFound},
		{"unknown resource, written", "POST", "/api/v1/namespaces/default/nopes", "{}", notFound},
		{"unknown version", "GET", "/api/v7", "", notFound},
		{"unknown group", "GET", "/apis/nope", "", notFound},
		{"unknown group and version", "GET", "/apis/nope/v1", "", notFound},
		{"core has no group", "GET", "/apis//v1/configmaps", "", notFound},
		{"unknown subresource", "GET", configMaps + "/a/scale", "", notFound},
		{"a status that there is not", "GET", configMaps + "/a/status", "", notFound},
		{"a namespaced object without its namespace", "GET", "/api/v1/configmaps/a", "", notFound},
		{"a cluster's resource in a namespace", "GET", "/api/v1/namespaces/default/nodes", "", notFound},
		{"too many segments", "GET", configMaps + "/a/status/b", "", notFound},
		{"an empty namespace", "GET", "/api/v1/namespaces//configmaps", "", notFound},
		{"an empty name", "GET", deployments + "//status", "", notFound},
		{"a slash in a segment", "GET", configMaps + "/a%2Fb", "", "400 BadRequest"},
		{"a NUL in a segment", "GET", configMaps + "/a%00", "", "400 BadRequest"},
		{"two dots", "GET", configMaps + "/%2e%2e", "", "400 BadRequest"},
		{"one dot", "GET", configMaps + "/.", "", "400 BadRequest"},
		{"unknown path", "GET", "/nope", "", "404 paths"},
		{"root", "GET", "/", "", "200 paths"},
		{"below a document", "GET", "/version/x", "", "404 paths"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := d.do(c.method, c.path, c.body)
			got := fmt.Sprintf("%d %s", a.StatusCode, strings.TrimSpace(a.body))
			if strings.HasPrefix(a.body, "{") {
				body := tree(t, a.body)
				switch {
				case body["paths"] != nil:
					got = fmt.Sprintf("%d paths", a.StatusCode)
				case body["kind"] == "Status":
					got = fmt.Sprintf("%d %v", a.StatusCode, body["reason"])
					if body["status"] != "Failure" || body["code"] != float64(a.StatusCode) || body["message"] == "" {
						t.Errorf("Status %s", a.body)
					}
				default:
					got = fmt.Sprintf("%d %v", a.StatusCode, body["kind"])
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if a.Header.Get("Audit-Id") == "" || a.Header.Get("Cache-Control") != "no-cache, private" {
				t.Errorf("headers %v", a.Header)
			}
		})
	}
}

func TestDeprecatedWatchPathsWatch(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	d.create("b", "")
	for _, c := range []struct{ path, want string }{
		{"/api/v1/watch/namespaces/default/configmaps", "ADDED a"},
		{"/api/v1/watch/configmaps", "ADDED a"},
		{"/api/v1/watch/namespaces/default/configmaps/b", "ADDED b"},
		{"/api/v1/watch/namespaces/kube-public", "ADDED kube-public"},
		{"/api/v1/watch/namespaces", "ADDED default"},
	} {
		s := d.open(d.h2, c.path)
		if got := s.say(); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
		s.stop()
	}
}

func TestAuditIDIsTheClientsOrNew(t *testing.T) {
	d := openServer(t, nil)
	long := strings.Repeat("x", 100)
	if got := d.do("GET", "/version", "", "Audit-Id: mine").Header.Get("Audit-Id"); got != "mine" {
		t.Errorf("Audit-Id %q", got)
	}
	if got := d.do("GET", "/version", "", "Audit-Id: "+long).Header.Get("Audit-Id"); got != long[:64] {
		t.Errorf("Audit-Id %q", got)
	}
	if a, b := d.do("GET", "/version", "").Header.Get("Audit-Id"), d.do("GET", "/version", "").Header.Get("Audit-Id"); a == b ||
		a == "" {
		t.Errorf("Audit-Ids %q and %q", a, b)
	}
}
