package openapi

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/gapless-io/gapless/internal/kinds"
)

// addSwaggerPaths adds the collection of a resource, the object and its subresources.
func (d *definitions) addSwaggerPaths(paths object, r *kinds.Resource, b bodies) {
	for path, at := range d.places(r, b) {
		if item := at.item(path); item != nil {
			paths[path] = item
		}
	}
}

// item has the operations of a path, with the parameters that they have in common.
func (at place) item(path string) object {
	served := at.methods()
	if len(served) == 0 {
		return nil
	}
	item, common := object{}, at.common(path)
	for _, m := range served {
		op, params := at.operation(m), at.body(m)
		if len(served) == 1 { // its parameters are common to all
			common = append(common, at.query(m)...)
		} else {
			params = append(params, at.query(m)...)
		}
		if len(params) > 0 {
			op["parameters"] = references(params)
		}
		item[m.http] = op
	}
	slices.SortStableFunc(common, func(a, b object) int { return strings.Compare(parameterOf(a).name, parameterOf(b).name) })
	item["parameters"] = references(common)
	return item
}

func (at place) operation(m method) object {
	answer := object{"$ref": definitionsPrefix + at.answer(m)}
	responses := object{"401": object{"description": "Unauthorized"}}
	for code, description := range at.codes(m) {
		responses[code] = object{"description": description, "schema": answer}
	}
	return object{
		"operationId": at.id(m), "tags": []string{tag(at.resource)}, "schemes": []string{"https"},
		"description": at.description(m), "responses": responses,
		"consumes": at.consumes(m), "produces": at.produces(m),
		"x-kubernetes-action": m.action, "x-kubernetes-group-version-kind": kindsExtension(at.kind)[0],
	}
}

// body is the parameter of a method's body, if it has one.
func (at place) body(m method) []object {
	switch {
	case m.verb == "create" || m.verb == "update":
		return []object{
			{"name": "body", "in": "body", "required": true, "schema": object{"$ref": definitionsPrefix + at.bodies.object}},
		}
	case m.verb == "patch":
		return []object{patchBody()}
	case m.verb == "delete", m.verb == "deletecollection" && !at.resource.Custom:
		return []object{deleteBody()}
	}
	return nil
}

// references are parameters, by reference where they are shared.
func references(params []object) []object {
	all := make([]object, len(params))
	for i, p := range params {
		name, isShared := parameterNames()[parameterOf(p)]
		// kubectl before 1.27 looks for these two in the operation itself.
		if all[i] = p; isShared && p["name"] != "dryRun" && p["name"] != "fieldValidation" {
			all[i] = object{"$ref": "#/parameters/" + name}
		}
	}
	return all
}

func patchBody() object {
	return object{
		"name": "body", "in": "body", "required": true,
		"schema": object{"$ref": definitionsPrefix + definitionName(reflect.TypeFor[metav1.Patch]())},
	}
}

func deleteBody() object {
	return object{
		"name": "body", "in": "body",
		"schema": object{"$ref": definitionsPrefix + definitionName(reflect.TypeFor[metav1.DeleteOptions]())},
	}
}

// parameterNames has the names of all shared parameters: they are in every document.
//
//nolint:gochecknoglobals // a table, made once
var parameterNames = sync.OnceValue(func() map[parameter]string {
	names := map[parameter]string{}
	for name, p := range sharedParameters() {
		names[parameterOf(p.(object))] = name //nolint:forcetypeassert // it has nothing else
	}
	return names
})

// parameter identifies a shared parameter.
type parameter struct{ in, name, description string }

func parameterOf(p object) parameter {
	text := func(key string) string { s, _ := p[key].(string); return s }
	id := parameter{text("in"), text("name"), text("description")}
	if id.in == "body" {
		schema, _ := p["schema"].(object)
		id.description, _ = schema["$ref"].(string)
	}
	return id
}

// parameterName is the name of a shared parameter: its own, and a hash because parameters
// of one name differ between verbs.
func parameterName(p object) string {
	var param spec.Parameter   // upstream's names depend on the order of its fields
	text, _ := json.Marshal(p) // strings and booleans can be encoded
	_ = json.Unmarshal(text, &param)
	text, _ = json.Marshal(param)
	hash := fnv.New64()
	_, _ = hash.Write(text) // it does not fail
	return parameterOf(p).name + "-" + base64.URLEncoding.EncodeToString(hash.Sum(nil)[:6])
}

// sharedParameters are all parameters that [shared] may refer to.
func sharedParameters() object {
	all := append(pathParameters(), patchBody(), deleteBody())
	for _, m := range slices.Concat(methods(true), methods(false)) {
		for _, t := range m.options {
			all = append(all, queryParameters(t)...)
		}
	}
	params := object{}
	for _, p := range all {
		if p["name"] != "dryRun" && p["name"] != "fieldValidation" {
			params[parameterName(p)] = p
		}
	}
	return params
}
