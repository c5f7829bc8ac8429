package openapi

import (
	"encoding/json"
	"slices"

	"github.com/gapless-io/gapless/internal/schema"
)

// object is a JSON object under construction.
type object = map[string]any

// render returns the document of one group and version.
func render(resources []*schema.Resource) ([]byte, error) {
	defs := newDefinitions(version3)
	paths := object{}
	for _, r := range resources {
		name, err := defs.addResource(r)
		if err != nil {
			return nil, err
		}
		defs.addPaths(paths, r, name)
	}
	return json.Marshal(object{
		"openapi":    "3.0.0",
		"info":       object{"title": "Kubernetes", "version": "gapless"},
		"paths":      paths,
		"components": object{"schemas": defs.schemas},
	})
}

// addPaths adds the collection, the object and its subresources.
func (defs *definitions) addPaths(paths object, r *schema.Resource, definition string) {
	collection := basePath(r) + "/" + r.Plural
	if r.Namespaced {
		if slices.Contains(r.Verbs, "list") {
			paths[collection] = object{"get": operation(r, "list", definition)}
		}
		collection = basePath(r) + "/namespaces/{namespace}/" + r.Plural
	}
	paths[collection] = pathItem(r, definition, object{"get": "list", "post": "create", "delete": "deletecollection"})
	single := object{"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
	if !slices.Contains(r.Verbs, "get") {
		return // it is asked, and not kept
	}
	paths[collection+"/{name}"] = pathItem(r, definition, single)
	if r.HasStatus {
		paths[collection+"/{name}/status"] = pathItem(r, definition, object{"get": "get", "put": "update", "patch": "patch"})
	}
	for _, sub := range r.Subresources {
		if sub.Name == "status" {
			continue // HasStatus says it
		}
		part, body := *r, definition
		part.Group, part.Version, part.Kind, part.Verbs = sub.Kind.Group, sub.Kind.Version, sub.Kind.Kind, sub.Verbs
		if sub.GoType != nil {
			body = defs.addGo(sub.GoType)
		}
		paths[collection+"/{name}/"+sub.Name] = pathItem(&part, body, object{"get": "get", "post": "create", "put": "update", "patch": "patch"})
	}
}

// pathItem keeps the methods whose verb the resource has.
func pathItem(r *schema.Resource, definition string, methods object) object {
	item := object{}
	for method, verb := range methods {
		if slices.Contains(r.Verbs, verb.(string)) {
			item[method] = operation(r, verb.(string), definition)
		}
	}
	return item
}

func operation(r *schema.Resource, verb, definition string) object {
	body := object{"schema": ref(definition)}
	op := object{
		"operationId":                     verb + r.Kind,
		"x-kubernetes-action":             verb,
		"x-kubernetes-group-version-kind": gvk(r),
		"responses": object{"200": object{
			"description": "OK", "content": object{"application/json": body},
		}},
	}
	switch verb {
	case "create", "update":
		op["parameters"] = parameters("dryRun", "fieldManager", "fieldValidation")
		op["requestBody"] = object{"required": true, "content": object{"application/json": body}}
	case "patch":
		// kubectl looks here for fieldValidation, dryRun and the patch types.
		content := object{}
		for _, t := range r.PatchTypes {
			content[t] = object{"schema": object{"type": "object"}}
		}
		op["parameters"] = parameters("dryRun", "fieldManager", "fieldValidation", "force")
		op["requestBody"] = object{"required": true, "content": content}
	case "delete":
		op["parameters"] = parameters("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
	default:
		op["parameters"] = parameters("resourceVersion")
	}
	return op
}

func parameters(names ...string) []object {
	params := make([]object, len(names))
	for i, name := range names {
		params[i] = object{"name": name, "in": "query", "schema": object{"type": "string"}}
	}
	return params
}

func gvk(r *schema.Resource) object {
	return object{"group": r.Group, "version": r.Version, "kind": r.Kind}
}

func ref(definition string) object { return object{"$ref": "#/components/schemas/" + definition} }
