package openapi

import (
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// addPaths adds the paths of a resource to those of a document of version 3, and the
// definitions that all resources share and that these refer to.
func (d *definitions) addPaths(paths object, r *kinds.Resource, b bodies) {
	for path, at := range d.places(r, b) {
		if item := d.item3(path, at); item != nil {
			paths[path] = item
		}
		if at.sub != "" || r.Custom || !slices.Contains(r.Verbs, "watch") {
			continue
		}
		below, _ := strings.CutPrefix(path, basePath(r))
		path, at.watch = basePath(r)+"/watch"+below, true
		paths[path] = d.item3(path, at)
	}
}

// item3 has the operations of a path, with the parameters that they have in common.
func (d *definitions) item3(path string, at place) object {
	served := at.methods()
	if len(served) == 0 {
		return nil
	}
	item, common := object{}, parameters3(at.common(path))
	for _, m := range served {
		op := d.operation3(at, m)
		if params := parameters3(at.query(m)); len(served) == 1 { // its parameters are common to all
			common = append(common, params...)
		} else if len(params) > 0 {
			op["parameters"] = params
		}
		item[m.http] = op
	}
	slices.SortFunc(common, func(a, b object) int { return strings.Compare(parameterOf(a).name, parameterOf(b).name) })
	item["parameters"] = common
	return item
}

// parameters3 are parameters as version 3 writes them: their types are schemas.
func parameters3(params []object) []object {
	all := make([]object, len(params))
	for i, p := range params {
		all[i] = object{
			"name": p["name"], "in": p["in"], "description": p["description"],
			"schema": object{"type": p["type"], "uniqueItems": p["uniqueItems"]},
		}
		if p["required"] == true {
			all[i]["required"] = true
		}
	}
	return all
}

func (d *definitions) operation3(at place, m method) object {
	responses := answers3(d.shared3(at.answer(m), at.resource), at.codes(m), at.produces(m))
	op := object{
		"operationId": at.id(m), "tags": []string{tag(at.resource)}, "description": at.description(m), "responses": responses,
		"x-kubernetes-action": m.action, "x-kubernetes-group-version-kind": kindsExtension(at.kind)[0],
	}
	switch m.verb {
	case "create", "update":
		op["requestBody"] = object{"content": content3(at.bodies.object, at.consumes(m)), "required": true}
	case "patch":
		op["requestBody"] = object{
			"content":  content3(d.shared3(definitionName(reflect.TypeFor[metav1.Patch]()), at.resource), at.consumes(m)),
			"required": true,
		}
	case "deletecollection", "delete":
		if m.verb == "delete" || !at.resource.Custom {
			op["requestBody"] = object{
				"content": content3(d.shared3(definitionName(reflect.TypeFor[metav1.DeleteOptions]()), at.resource),
					at.consumes(m)),
			}
		}
	}
	return op
}

// answers3 has the answers by their status codes.
func answers3(definition string, codes map[string]string, types []string) object {
	responses := object{"401": object{"description": "Unauthorized"}}
	for code, description := range codes {
		responses[code] = object{"description": description, "content": content3(definition, types)}
	}
	return responses
}

// content3 is a body of any of these media types.
func content3(definition string, types []string) object {
	content, body := object{}, object{"schema": object{"$ref": version3.refPrefix() + definition}}
	for _, t := range types {
		content[t] = body
	}
	return content
}

// shared3 adds the definition of this name if it is one of those that the operations of all
// resources share. It returns the name.
func (d *definitions) shared3(name string, r *kinds.Resource) string {
	if _, known := d.schemas[name]; known || r.Custom { // custom resources: [Shared]
		return name
	}
	core := kinds.GroupVersionKind{Version: "v1"}
	both := []kinds.GroupVersionKind{core}
	if r.Group != core.Group {
		both = append(both, r.GVK())
	}
	for t, of := range map[reflect.Type][]kinds.GroupVersionKind{
		reflect.TypeFor[metav1.Patch]():         nil,
		reflect.TypeFor[metav1.Status]():        {core},
		reflect.TypeFor[autoscalingv1.Scale]():  {scaleKind()},
		reflect.TypeFor[metav1.DeleteOptions](): both,
		reflect.TypeFor[metav1.WatchEvent]():    both,
	} {
		if definitionName(t) == name {
			d.addKinds(t, of)
		}
	}
	return name
}

// addKinds adds the definition of a Go type that is an object of each of these versions.
func (d *definitions) addKinds(t reflect.Type, of []kinds.GroupVersionKind) {
	name := d.addGo(t)
	var all []object
	for _, kind := range of {
		kind.Kind = t.Name()
		all = append(all, kindsExtension(kind)...)
	}
	if def, ok := d.schemas[name].(object); ok && len(all) > 0 {
		def["x-kubernetes-group-version-kind"] = all
	}
}
