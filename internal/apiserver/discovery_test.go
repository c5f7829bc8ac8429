package apiserver_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

func decode[T any](t testing.TB, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %.200s: %v", body, err)
	}
	return v
}

// everything is what the catalog serves, as "apps/v1 deployments Deployment true
// create,…"; with subresources.
func everything() []string {
	var all []string
	for _, r := range builtin.Catalog().Resources() {
		scope := " cluster "
		if r.Namespaced {
			scope = " namespaced "
		}
		all = append(all, r.APIVersion()+" "+r.Plural+" "+r.Kind+scope+strings.Join(r.Verbs, ","))
		if r.HasStatus {
			all = append(all, r.APIVersion()+" "+r.Plural+"/status "+r.Kind+scope+"get,patch,update")
		}
		if r.Scale != nil {
			all = append(all, r.APIVersion()+" "+r.Plural+"/scale Scale"+scope+"get,patch,update")
		}
	}
	all = append(all,
		"v1 namespaces/finalize Namespace cluster update",
		"v1 pods/binding Binding namespaced create",
		"v1 pods/ephemeralcontainers Pod namespaced get,patch,update",
		"v1 pods/resize Pod namespaced get,patch,update",
		"v1 pods/eviction Eviction namespaced create", "v1 serviceaccounts/token TokenRequest namespaced create",
		"certificates.k8s.io/v1 certificatesigningrequests/approval CertificateSigningRequest cluster get,patch,update",
	)
	slices.Sort(all)
	return all
}

func TestLegacyDiscoveryNamesEveryResource(t *testing.T) {
	d := openServer(t, nil)
	versions := []string{"/api/v1"}
	for _, g := range decode[metav1.APIGroupList](t, d.do("GET", "/apis", "", acceptLegacy).body).Groups {
		one := decode[metav1.APIGroup](t, d.do("GET", "/apis/"+g.Name, "").body)
		one.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(g, one); diff != "" {
			t.Errorf("/apis/%s is not what /apis says: %s", g.Name, diff)
		}
		if g.PreferredVersion != g.Versions[0] {
			t.Errorf("%s prefers %v", g.Name, g.PreferredVersion)
		}
		for _, v := range g.Versions {
			versions = append(versions, "/apis/"+v.GroupVersion)
		}
	}
	var all []string
	for _, path := range versions {
		list := decode[metav1.APIResourceList](t, d.do("GET", path, "").body)
		if path != "/api/"+list.GroupVersion && path != "/apis/"+list.GroupVersion {
			t.Errorf("%s says it is %s", path, list.GroupVersion)
		}
		for _, r := range list.APIResources {
			scope := " cluster "
			if r.Namespaced {
				scope = " namespaced "
			}
			all = append(all, list.GroupVersion+" "+r.Name+" "+r.Kind+scope+strings.Join(r.Verbs, ","))
			if r.Kind == "Scale" && (r.Group != "autoscaling" || r.Version != "v1") {
				t.Errorf("%s is of %s/%s", r.Name, r.Group, r.Version)
			}
		}
	}
	slices.Sort(all)
	if diff := cmp.Diff(everything(), all); diff != "" {
		t.Error(diff)
	}
}

func TestAggregatedDiscoveryNamesEveryResource(t *testing.T) {
	d := openServer(t, nil)
	for _, v := range []string{"v2", "v2beta1"} {
		var all []string
		for _, root := range []string{"/api", "/apis"} {
			list := decode[discoveryv2.APIGroupDiscoveryList](t, d.do("GET", root, "", "Accept: "+aggregatedType(v)).body)
			if list.APIVersion != "apidiscovery.k8s.io/"+v {
				t.Errorf("apiVersion %s", list.APIVersion)
			}
			for _, g := range list.Items {
				for _, version := range g.Versions {
					gv := strings.TrimPrefix(g.Name+"/"+version.Version, "/")
					for _, r := range version.Resources {
						scope := " cluster "
						if r.Scope == discoveryv2.ScopeNamespace {
							scope = " namespaced "
						}
						all = append(all, gv+" "+r.Resource+" "+r.ResponseKind.Kind+scope+strings.Join(r.Verbs, ","))
						for _, sub := range r.Subresources {
							all = append(all,
								gv+" "+r.Resource+"/"+sub.Subresource+" "+sub.ResponseKind.Kind+scope+strings.Join(sub.Verbs,
									","))
						}
					}
				}
			}
		}
		slices.Sort(all)
		if diff := cmp.Diff(everything(), all); diff != "" {
			t.Errorf("%s: %s", v, diff)
		}
	}
}

func TestDiscoveryFallsBackForUnknownForms(t *testing.T) {
	d := openServer(t, nil)
	for accept, want := range map[string]string{
		"application/json;g=apidiscovery.k8s.io;v=v7;as=APIGroupDiscoveryList,application/json":                      "APIGroupList",
		"application/json;g=other;v=v2;as=APIGroupDiscoveryList,application/json":                                    "APIGroupList",
		"application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList":                      "APIGroupList",
		"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json":   "APIGroupList",
		"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json;q=0.5": "APIGroupDiscoveryList",
		"application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList," + aggregatedType("v2") +
			",application/json": "APIGroupDiscoveryList",
	} {
		if a := d.do("GET", "/apis", "", "Accept: "+accept); at(tree(t, a.body), "kind") != want {
			t.Errorf("%s: %.100s, want %s", accept, a.body, want)
		}
	}
}

func TestUnchangedAggregatedDiscoveryIsNotModified(t *testing.T) {
	d := openServer(t, nil)
	for _, root := range []string{"/api", "/apis"} {
		first := d.do("GET", root, "", acceptAggregated)
		etag := first.Header.Get("Etag")
		if len(etag) != 130 || first.Header.Get("Cache-Control") != "public" ||
			!slices.Contains(first.Header.Values("Vary"), "Accept") {
			t.Errorf("%s: headers %v", root, first.Header)
		}
		again := d.do("GET", root, "", acceptAggregated, "If-None-Match: "+etag)
		if again.StatusCode != http.StatusNotModified || again.body != "" || again.Header.Get("Etag") != etag {
			t.Errorf("%s: %d %q %v", root, again.StatusCode, again.body, again.Header)
		}
		if other := d.do("GET",
			root, "", acceptAggregated, `If-None-Match: "x"`); other.StatusCode != http.StatusOK || other.body != first.body {
			t.Errorf("%s: %d for another tag", root, other.StatusCode)
		}
	}
}

func TestNewDefinitionIsDiscoveredImmediately(t *testing.T) {
	d := openServer(t, nil)
	etag := d.do("GET", "/apis", "", acceptAggregated).Header.Get("Etag")
	a := d.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	if a.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if again := d.do("GET",
		"/apis", "", acceptAggregated, "If-None-Match: "+etag); again.StatusCode != http.StatusOK ||
		!strings.Contains(again.body, `"resource":"foos"`) {
		t.Errorf("%d %.200s", again.StatusCode, again.body)
	}
	if list := d.do("GET",
		"/apis/t.example.com/v1", ""); list.StatusCode != http.StatusOK || !strings.Contains(list.body, `"name":"foos"`) {
		t.Errorf("%d %s", list.StatusCode, list.body)
	}
	foos := "/apis/t.example.com/v1/namespaces/default/foos"
	a = d.do("POST", foos, `{"kind":"Foo","apiVersion":"t.example.com/v1","metadata":{"name":"f"}}`)
	if a.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if a = d.do("POST",
		foos, "k8s\x00", "Content-Type: application/vnd.kubernetes.protobuf"); a.StatusCode != http.StatusUnsupportedMediaType ||
		strings.Contains(a.body, "protobuf") {
		t.Errorf("protobuf: %d %s", a.StatusCode, a.body)
	}
	a = d.do("PATCH", foos+"/f", "{}", "Content-Type: application/strategic-merge-patch+json")
	if a.StatusCode != http.StatusUnsupportedMediaType || strings.Contains(a.body, "strategic") {
		t.Errorf("strategic merge patch: %d %s", a.StatusCode, a.body)
	}
	for _, path := range []string{foos + "/f/nope", foos + "/f/scale"} {
		if a = d.do("GET",
			path, ""); a.StatusCode != http.StatusNotFound || tree(t, a.body)["message"] != `foos.t.example.com "f" not found` {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if table := tableOf(t, []byte(d.do("GET", foos, "", acceptTable).body)); !slices.Equal(columnNames(table),
		[]string{"Name", "Age"}) {
		t.Errorf("columns %v", columnNames(table))
	}
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
	`"metadata":{"name":"foos.t.example.com"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
