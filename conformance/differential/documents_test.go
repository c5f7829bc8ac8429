package differential_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/gapless-io/gapless/conformance/differential/play"
)

// examples are definitions of many shapes: scopes, subresources, several versions in an
// unusual order, names, and what OpenAPI v2 cannot say of a schema.
var examples = map[string]string{
	"foos.docs.example.com": `{"group":"docs.example.com","scope":"Namespaced",
"names":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList","shortNames":["fo","f"],"categories":["all","docs"]},"versions":[
{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
"schema":{"openAPIV3Schema":{"type":"object","description":"A foo.","properties":{"spec":{"type":"object","required":["a","b"],` +
		`"properties":{
"a":{"type":"string","nullable":true},"b":{"type":"number","minimum":0.5},"c":{"x-kubernetes-int-or-string":true},
"pod":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}},
"any":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
"map":{"type":"object","additionalProperties":{"type":"string","nullable":true}},
"either":{"type":"object","oneOf":[{"required":["x"]},{"required":["y"]}],"properties":{"x":{"type":"string"},"y":{"type":"string"}}},
"replicas":{"type":"integer","default":1,"maximum":9},"word":{"type":"string","enum":["a","b"],"pattern":"^[ab]$"},
"free":{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true}},
"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
"properties":{"name":{"type":"string"},"v":{"type":"array","items":{"type":"integer","format":"int32"}}}}}}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}`,
	"cars.docs.example.com": `{"group":"docs.example.com","scope":"Cluster","names":{"plural":"cars","singular":"car",` +
		`"kind":"Car","listKind":"CarList"},"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"true"}]}}}}}]}`,
	"axes.a.example.org": `{"group":"a.example.org","scope":"Namespaced","names":{"plural":"axes","singular":"axis",` +
		`"kind":"Axis","listKind":"AxisList"},"versions":[
{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},"selectableFields":[{"jsonPath":".spec.name"},{"jsonPath":".spec.ok"}],
"schema":{"openAPIV3Schema":{"type":"object","title":"An axis","required":["spec"],"properties":{"metadata":{"type":"object",` +
		`"properties":{"name":{"type":"string","maxLength":9}}},
"spec":{"type":"object","minProperties":1,"maxProperties":9,"x-kubernetes-map-type":"granular","externalDocs":{"url":"https://example.org","description":"More."},"properties":{
"name":{"type":"string","minLength":1,"maxLength":9,"format":"hostname","example":"a","default":"a","title":"Its name"},
"ok":{"type":"boolean","default":false},"size":{"type":"number","exclusiveMinimum":true,"minimum":1,"exclusiveMaximum":true,"maximum":5,"multipleOf":0.5},
"set":{"type":"array","minItems":1,"maxItems":5,"x-kubernetes-list-type":"set","items":{"type":"string","enum":["a","b"]},"default":["a"]},
"atom":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer","format":"int64","nullable":true}}}}},
"pods":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"kind":{"type":"string","enum":["Pod"]},"metadata":{"type":"object","properties":{"name":{"type":"string"}}}}}},
"port":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}],"default":80,"description":"A port."},
"rules":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"default":{"a":1},"not":{"required":["a","b"]},"anyOf":[{"required":["a"]},{"properties":{"b":{"minimum":3}}}],
"x-kubernetes-validations":[{"rule":"!oldSelf.hasValue() || self.a < 5","message":"too large","messageExpression":"'x'",` +
		`"reason":"FieldValueInvalid","fieldPath":".a","optionalOldSelf":true}]}}}}}}}]}`,
}

// answer is what a server says to a GET.
type answer struct {
	code   int
	header http.Header
	body   any
}

func ask(t *testing.T, to play.Target, path string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to.URL+path, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	if to.Token != "" {
		req.Header.Set("Authorization", "Bearer "+to.Token)
	}
	transport := &http.Transport{TLSClientConfig: to.TLS}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("round trip: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{code: resp.StatusCode, header: resp.Header}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read to the end: %v", err)
	}
	_ = json.Unmarshal(text, &a.body) // other bodies are not compared
	return a
}

// remove deletes a definition.
func remove(ctx context.Context, to play.Target, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete,
		to.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, nil)
	if err != nil {
		return err
	}
	_, _, err = send(to, req)
	return err
}

// TestDocumentsOfDefinitionsAreUpstreams compares aggregated discovery, OpenAPI v2 and v3 of
// the same definitions, when they are served and after one was deleted.
func TestDocumentsOfDefinitionsAreUpstreams(t *testing.T) {
	p := newPair(t, build(t))
	for name, spec := range examples {
		for _, to := range []play.Target{p.upstream.Target(), p.gapless.Target()} {
			if err := post(t.Context(), to, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": name}, "spec": json.RawMessage(spec),
			}); err != nil {
				t.Fatalf("post: %v", err)
			}
		}
	}
	t.Run("served", func(t *testing.T) {
		compareDocuments(t, p, "com.example.docs.v1.Foo", "org.example.a.v1alpha1.Axis", "com.example.docs.v1.Car")
	})
	// Upstream's finalizer of definitions fails, and waits longer and longer, as long as the cache
	// of the resource is not ready. This is answered from that cache.
	settles(t, "upstream's cache of the resource", func() string {
		if code := ask(t, p.upstream.Target(), "/apis/docs.example.com/v1/cars?resourceVersion=0").code; code != http.StatusOK {
			return fmt.Sprint(code)
		}
		return ""
	})
	for _, to := range []play.Target{p.upstream.Target(), p.gapless.Target()} {
		if err := remove(t.Context(), to, "cars.docs.example.com"); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
	settles(t, "the deletion", func() string {
		if code := ask(t, p.upstream.Target(), "/apis/docs.example.com/v1/cars").code; code != http.StatusNotFound {
			return fmt.Sprint(code)
		}
		return ""
	})
	t.Run("one deleted", func(t *testing.T) { compareDocuments(t, p, "com.example.docs.v1.Foo", "org.example.a.v1alpha1.Axis") })
}

// compareDocuments compares the documents when upstream's are those of the definitions: its
// controllers need a moment.
func compareDocuments(t *testing.T, p *pair, kinds ...string) {
	t.Helper()
	// Upstream's handler is asked for v2 only: 1.33 turned off v2beta1, which has the same
	// content, and which clients before 1.30 ask for.
	for _, version := range []string{"v2", "v2beta1"} {
		accept := "Accept: application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList,application/json"
		var theirs, ours answer
		settles(t, "aggregated discovery "+version, func() string {
			theirs, ours = aggregate(t, p.upstream.Target(), fmt.Sprintf(accept, "v2")), ask(t, p.gapless.Target(), "/apis",
				fmt.Sprintf(accept, version))
			return gocmp.Diff(items(theirs.body), items(onlyGroups(ours.body, theirs.body)))
		})
		for _, name := range []string{"Content-Type", "Cache-Control"} {
			if a, b := strings.Replace(theirs.header.Get(name), "v=v2", "v="+version, 1), ours.header.Get(name); a != b {
				t.Errorf("%s: %s %q, upstream %q", version, name, b, a)
			}
		}
		if a, b := len(theirs.header.Get("Etag")), len(ours.header.Get("Etag")); a != b ||
			!slices.Contains(ours.header.Values("Vary"), "Accept") {
			t.Errorf("%s: headers %v, upstream %v", version, ours.header, theirs.header)
		}
		if again := ask(t, p.gapless.Target(), "/apis", fmt.Sprintf(accept, version),
			"If-None-Match: "+ours.header.Get("Etag")); again.code != http.StatusNotModified {
			t.Errorf("%s: %d for its own tag", version, again.code)
		}
	}
	settles(t, "OpenAPI v2", func() string {
		theirs, ours := ask(t, p.upstream.Target(), "/openapi/v2", "Accept: application/json"), ask(t, p.gapless.Target(),
			"/openapi/v2", "Accept: application/json")
		for _, kind := range kinds {
			if definitions, _ := theirs.body.(map[string]any)["definitions"].(map[string]any); definitions[kind] == nil {
				return "upstream does not have " + kind
			}
		}
		return gocmp.Diff(ofExamples(theirs.body), ofExamples(ours.body))
	})
	for name, versions := range map[string][]string{"docs.example.com": {"v1", "v1beta1", "v2"}, "a.example.org": {"v1alpha1"}} {
		for _, version := range versions {
			path := "/openapi/v3/apis/" + name + "/" + version
			settles(t, path, func() string {
				theirs, ours := ask(t, p.upstream.Target(), path), ask(t, p.gapless.Target(), path)
				if theirs.code != http.StatusOK || ours.code != http.StatusOK {
					return fmt.Sprintf("%d, upstream %d", ours.code, theirs.code)
				}
				if paths, _ := theirs.body.(map[string]any)["paths"].(map[string]any); len(paths) < 2 {
					return fmt.Sprintf("upstream has %d paths", len(paths))
				}
				return gocmp.Diff(ofOwnKind(theirs.body), ofOwnKind(ours.body))
			})
		}
	}
	const html = "Accept: text/html"
	if a, b := ask(t, p.upstream.Target(), "/openapi/v2", html).code, ask(t, p.gapless.Target(), "/openapi/v2",
		html).code; a != b {
		t.Errorf("%s: %d, upstream %d", html, b, a)
	}
}

// ofOwnKind leaves out in which versions there are DeleteOptions: upstream names all that its client
// knows, of versions that are not served too.
func ofOwnKind(doc any) any {
	components, _ := doc.(map[string]any)["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	options, _ := schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"].(map[string]any)
	delete(options, "x-kubernetes-group-version-kind")
	return doc
}

// aggregate answers with the aggregated discovery of the reference server, which
// does not serve it itself: upstream's handler, of upstream's documents of each version.
func aggregate(t *testing.T, to play.Target, accept string) answer {
	t.Helper()
	manager := aggregated.NewResourceManager("apis")
	for _, gv := range []metav1.GroupVersion{
		{Group: "docs.example.com", Version: "v1beta1"},
		{Group: "docs.example.com", Version: "v1"},
		{Group: "docs.example.com", Version: "v2"},
		{Group: "a.example.org", Version: "v1alpha1"},
		{Group: "apiextensions.k8s.io", Version: "v1"},
	} {
		var list metav1.APIResourceList
		settles(t, gv.String()+" is served", func() string {
			a := ask(t, to, "/apis/"+gv.String())
			if a.code != http.StatusOK {
				return fmt.Sprint(a.code)
			}
			text, err := json.Marshal(a.body)
			if err == nil {
				err = json.Unmarshal(text, &list)
			}
			if err != nil {
				return err.Error()
			}
			return ""
		})
		for i, r := range list.APIResources {
			// The document of one version leaves them out. The order of verbs and of resources
			// has no meaning, upstream it depends on when definitions were read.
			list.APIResources[i].Group, list.APIResources[i].Version = cmp.Or(r.Group, gv.Group), cmp.Or(r.Version, gv.Version)
			slices.Sort(list.APIResources[i].Verbs)
		}
		slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(list.APIResources)
		if err != nil {
			t.Fatalf("convert group version into to discovery: %v", err)
		}
		manager.AddGroupVersion(gv.Group, discoveryv2.APIVersionDiscovery{
			Version: gv.Version, Resources: resources, Freshness: discoveryv2.DiscoveryFreshnessCurrent,
		})
		priority := 1000 // as upstream's controller of definitions
		if gv.Group == "apiextensions.k8s.io" {
			priority = 16700 // as kube-apiserver
		}
		manager.SetGroupVersionPriority(gv, priority, 100)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/apis", nil)
	name, value, _ := strings.Cut(accept, ": ")
	r.Header.Set(name, value)
	w := httptest.NewRecorder()
	manager.ServeHTTP(w, r)
	a := answer{code: w.Code, header: w.Header()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return a
}

// settles waits until there is no difference, and fails with the last one.
func settles(t *testing.T, what string, diff func() string) {
	t.Helper()
	deadline := time.NewTimer(3 * time.Minute) // for a machine that does much else
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for last := diff(); last != ""; last = diff() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("%s: - upstream, + gapless\n%s", what, last)
			return
		}
	}
}

func items(body any) any { return body.(map[string]any)["items"] }

// onlyGroups leaves the groups in ours that upstream's server has, in our order.
func onlyGroups(ours, theirs any) map[string]any {
	has := map[any]bool{}
	for _, g := range items(theirs).([]any) {
		has[g.(map[string]any)["metadata"].(map[string]any)["name"]] = true
	}
	return map[string]any{
		"items": slices.DeleteFunc(items(ours).([]any), func(g any) bool {
			return !has[g.(map[string]any)["metadata"].(map[string]any)["name"]]
		}),
	}
}

// ofExamples are the paths and definitions of the definitions, without what is
// different on purpose: this server does not accept apply patches, and describes the members of
// embedded objects in other words.
func ofExamples(body any) map[string]any {
	all := map[string]any{}
	doc := body.(map[string]any)
	for _, part := range []string{"paths", "definitions"} {
		for name, value := range doc[part].(map[string]any) {
			if strings.Contains(name, "example") {
				all[name] = normal(value)
			}
		}
	}
	return all
}

func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if name == "consumes" {
				v[name] = slices.DeleteFunc(child.([]any), func(m any) bool { return m == "application/apply-patch+yaml" })
				continue
			}
			v[name] = normal(child)
		}
		if v["x-kubernetes-embedded-resource"] == true {
			for _, name := range []string{"apiVersion", "kind"} {
				if props, ok := v["properties"].(map[string]any); ok && props[name] != nil {
					props[name] = map[string]any{"type": props[name].(map[string]any)["type"]}
				}
			}
		}
	case []any:
		for i, child := range v {
			v[i] = normal(child)
		}
	}
	return v
}
