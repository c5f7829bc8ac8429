package e2e_test

import (
	"fmt"
	"net/http"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	foos        = "/apis/t.example.com/v1/namespaces/default/foos"
)

// definitionBody is a CustomResourceDefinition of foos, as far as it has grown:
// with another column, another selectable field, another version.
func definitionBody(column, field, version bool) string {
	rest := `,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",` +
		`"properties":{"a":{"type":"string"}}}}}}`
	if column {
		rest += `,"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".spec.a"}]`
	}
	if field {
		// In every version: upstream takes schemas that are alike out of the versions,
		// and then knows of none for fields that are not.
		rest += `,"selectableFields":[{"jsonPath":".spec.a"}]`
	}
	versions := `{"name":"v1","served":true,"storage":true` + rest + `}`
	if version {
		versions += `,{"name":"v2","served":true,"storage":false` + rest + `}`
	}
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.t.example.com"},` +
		`"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"foos","singular":"foo","kind":"Foo",` +
		`"listKind":"FooList"},"versions":[` + versions + `]}}`
}

// define creates the definition, or changes it.
func (c *caller) define(column, field, version bool) {
	c.t.Helper()
	body := definitionBody(column, field, version)
	if r := c.do(http.MethodPost, definitions, body); r.code == http.StatusCreated {
		return
	}
	c.must(http.StatusOK, http.MethodPatch, definitions+"/foos.t.example.com", body, "Content-Type: application/merge-patch+json")
}

// foo creates a Foo, or changes it.
func (c *caller) foo(name, a string) tree {
	c.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":%q},"spec":{"a":%q}}`, name, a)
	if r := c.do(http.MethodPost, foos, body); r.code == http.StatusCreated {
		return r.tree(c.t)
	}
	return c.must(http.StatusOK, http.MethodPatch, foos+"/"+name, fmt.Sprintf(`{"spec":{"a":%q}}`, a),
		"Content-Type: application/merge-patch+json")
}
