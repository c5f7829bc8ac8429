package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// define creates a definition in group t.example.com: kind Foo, version v1; spec has further
// members of its spec, and version of its version.
func (d *testServer) define(plural, names, spec, version string) answer {
	d.t.Helper()
	a := d.do("POST", definitions,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+plural+`.t.example.com"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"`+plural+`",`+names+`},`+spec+`"versions":[{"name":"v1","served":true,"storage":true,`+version+`}]}}`)
	if a.StatusCode != http.StatusCreated {
		d.t.Fatal(a.body)
	}
	return a
}

const anySchema = `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`

// condition returns a condition of a definition.
func condition(t *testing.T, definition map[string]any, name string) map[string]any {
	t.Helper()
	list, _ := at(definition, "status", "conditions").([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == name {
			return c
		}
	}
	return nil
}

func TestNamesAreAcceptedWhenTheirOwnerIsDeleted(t *testing.T) {
	d := openServer(t, nil)
	d.define("foos", `"kind":"Foo"`, "", anySchema)
	second := tree(t, d.define("bars", `"kind":"Foo"`, "", anySchema).body)
	if c := condition(t, second, "NamesAccepted"); c["status"] != "False" || c["reason"] != "ListKindConflict" {
		t.Fatalf("%v", c)
	}
	s := d.open(d.h2, definitions+"?watch=1&fieldSelector=metadata.name%3Dbars.t.example.com")
	d.do("DELETE", definitions+"/foos.t.example.com", "")
	for {
		now, _ := s.next()["object"].(map[string]any)
		if condition(t, now, "NamesAccepted")["status"] == "True" && condition(t, now, "Established")["status"] == "True" {
			break
		}
	}
	if a := d.do("GET", "/apis/t.example.com/v1/bars", ""); a.StatusCode != http.StatusOK {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestDefinitionWithABadBundleIsNotEstablished(t *testing.T) {
	d := openServer(t, nil)
	created := tree(t, d.define("foos", `"kind":"Foo"`,
		`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],`+
			`"clientConfig":{"url":"https://127.0.0.1/","caBundle":"YQ=="}}},`, anySchema).body)
	c := condition(t, created, "Established")
	if c["status"] != "False" || c["reason"] != "InvalidCABundle" ||
		c["message"] != "The conversion webhook CABundle is invalid" {
		t.Errorf("%v", c)
	}
}

// Upstream's apply is not decoded again, so that nulls stay, and a new object of it is
// refused by admission.
func TestAppliedCustomResourcesAreRefusedAsUpstream(t *testing.T) {
	d := openServer(t, nil)
	d.define("foos", `"kind":"Foo"`, "",
		`"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"a":{"type":"object","properties":{"b":{"type":"string"}}},"n":{"type":"object","nullable":true}}}}}}`)
	apply := func(spec string) answer {
		return d.do("PATCH", "/apis/t.example.com/v1/namespaces/default/foos/a?fieldManager=m",
			`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a"},"spec":`+spec+`}`,
			"Content-Type: application/apply-patch+yaml")
	}
	for _, c := range []struct {
		spec, text string
		code       int
	}{
		{`{"a":{"b":"c"},"n":{}}`, `"b":"c"`, http.StatusCreated},
		{`{"a":null}`, `must be of type object`, http.StatusUnprocessableEntity},
		{`{"n":null}`, `"n":null`, http.StatusOK},
	} {
		if a := apply(c.spec); a.StatusCode != c.code || !strings.Contains(a.body, c.text) {
			t.Errorf("%s: %d %s", c.spec, a.StatusCode, a.body)
		}
	}
	d.do("DELETE", "/apis/t.example.com/v1/namespaces/default/foos/a", "")
	d.do("PATCH", definitions+"/foos.t.example.com", `{"metadata":{"finalizers":["example.com/held"]}}`,
		"Content-Type: application/merge-patch+json")
	d.do("DELETE", definitions+"/foos.t.example.com", "")
	const why = "create not allowed while custom resource definition is terminating"
	if a := apply(`{}`); a.StatusCode != http.StatusForbidden ||
		tree(t, a.body)["message"] != `foos.t.example.com "a" is forbidden: `+why {
		t.Errorf("apply: %d %s", a.StatusCode, a.body)
	}
	a := d.do("POST", "/apis/t.example.com/v1/namespaces/default/foos",
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a"}}`)
	if a.StatusCode != http.StatusMethodNotAllowed || tree(t, a.body)["message"] != why {
		t.Errorf("create: %d %s", a.StatusCode, a.body)
	}
}

func TestStatusUpdatesAreCheckedByTheSchemaOfTheStatus(t *testing.T) {
	d := openServer(t, nil)
	const number = `{"type":"object","properties":{"n":{"type":"integer","maximum":10}}}`
	d.define("foos", `"kind":"Foo"`, "",
		`"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
"selectableFields":[{"jsonPath":".spec.n"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":`+number+`,"status":`+number+`}}}`)
	const foo = "/apis/t.example.com/v1/namespaces/default/foos"
	d.do("POST", foo, `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"n":1}}`)
	a := d.do("PATCH", foo+"/a/status", `{"spec":{"n":15},"status":{"n":15}}`, "Content-Type: application/merge-patch+json")
	if want := `Foo.t.example.com "a" is invalid: status.n: Invalid value: 15: n in body should be less ` +
		`than or equal to 10`; tree(t, a.body)["message"] != want {
		t.Errorf("%d %s, want %s", a.StatusCode, a.body, want)
	}
	if a := d.do("PATCH",
		foo+"/a/status", `{"spec":{"n":15},"status":{"n":5}}`,
		"Content-Type: application/merge-patch+json"); a.StatusCode != http.StatusOK ||
		!strings.Contains(a.body, `"spec":{"n":1}`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for _, method := range []string{"POST", "DELETE"} {
		if a := d.do(method, "/apis/t.example.com/v1/foos",
			`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"b"}}`); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s in no namespace: %d %s", method, a.StatusCode, a.body)
		}
	}
	resources, _ := tree(t, d.do("GET", "/apis/t.example.com/v1", "").body)["resources"].([]any)
	var names []any
	for _, r := range resources {
		names = append(names, r.(map[string]any)["name"])
	}
	if got, err := json.Marshal(names); err != nil || string(got) != `["foos","foos/status","foos/scale"]` {
		t.Errorf("%v %s", err, got)
	}
	for _, path := range []string{"/openapi/v2"} {
		body := string(d.do("GET", path, "", "Accept: application/json").plain(t))
		if !strings.Contains(body, `"x-kubernetes-selectable-fields":[{"fieldPath":"spec.n"}]`) {
			t.Errorf("%s does not say which fields select", path)
		}
	}
}
