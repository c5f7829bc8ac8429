package openapi

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/gapless-io/gapless/internal/schema"
)

// bodies are the names of the definitions of an object and of a list of them.
type bodies struct{ object, list string }

// method is how a verb is done and called in OpenAPI.
type method struct {
	verb    string // as in discovery
	http    string
	action  string // x-kubernetes-action
	word    string // begins the operation's id and description
	options []reflect.Type
}

// methods are those of a path: of a collection, or of an object.
func methods(collection bool) []method {
	list := reflect.TypeFor[metav1.ListOptions]()
	if collection {
		return []method{
			{"list", "get", "list", "list", []reflect.Type{list}},
			{"create", "post", "post", "create", []reflect.Type{reflect.TypeFor[metav1.CreateOptions]()}},
			{"deletecollection", "delete", "deletecollection", "delete", []reflect.Type{list, reflect.TypeFor[metav1.DeleteOptions]()}},
		}
	}
	return []method{
		{"get", "get", "get", "read", []reflect.Type{reflect.TypeFor[metav1.GetOptions]()}},
		{"create", "post", "post", "create", []reflect.Type{reflect.TypeFor[metav1.CreateOptions]()}},
		{"update", "put", "put", "replace", []reflect.Type{reflect.TypeFor[metav1.UpdateOptions]()}},
		{"patch", "patch", "patch", "patch", []reflect.Type{reflect.TypeFor[metav1.PatchOptions]()}},
		{"delete", "delete", "delete", "delete", []reflect.Type{reflect.TypeFor[metav1.DeleteOptions]()}},
	}
}

// place is where a path leads: to a collection, an object, or a part of one.
type place struct {
	resource *schema.Resource
	kind     schema.GroupVersionKind // of the bodies
	bodies   bodies
	verbs    []string
	sub      string
	across   bool // all namespaces
	object   bool // the path has a name
}

// addSwaggerPaths adds the collection of a resource, the object and its subresources.
func (d *definitions) addSwaggerPaths(paths object, r *schema.Resource, b bodies) {
	at := place{resource: r, kind: r.GVK(), bodies: b, verbs: r.Verbs}
	collection := basePath(r) + "/" + r.Plural
	if r.Namespaced {
		across := at
		across.across, across.verbs = true, only(r.Verbs, "list")
		addPath(paths, collection, across)
		collection = basePath(r) + "/namespaces/{namespace}/" + r.Plural
	}
	addPath(paths, collection, at)
	at.object, at.verbs = true, only(r.Verbs, "get", "update", "patch", "delete")
	addPath(paths, collection+"/{name}", at)
	if r.HasStatus {
		status := at
		status.sub, status.verbs = "status", only(r.Verbs, "get", "update", "patch")
		addPath(paths, collection+"/{name}/status", status)
	}
	if r.Scale != nil {
		scale := at
		scale.sub, scale.verbs = "scale", []string{"get", "update", "patch"}
		if !r.Custom {
			scale.kind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		}
		scale.bodies.object = definitionName(reflect.TypeFor[autoscalingv1.Scale]())
		addPath(paths, collection+"/{name}/scale", scale)
	}
	for _, sub := range r.Subresources {
		if sub.Name == "status" {
			continue // HasStatus says it
		}
		part := at
		part.sub, part.kind, part.verbs = sub.Name, sub.Kind, sub.Verbs
		if sub.GoType != nil {
			part.bodies.object = d.addKind(sub.GoType, sub.Kind)
		}
		addPath(paths, collection+"/{name}/"+sub.Name, part)
	}
}

func only(verbs []string, wanted ...string) []string {
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return !slices.Contains(wanted, v) })
}

// addPath adds the operations of a path, with the parameters that they have in common.
func addPath(paths object, path string, at place) {
	item := object{}
	for _, m := range methods(!at.object) {
		if slices.Contains(at.verbs, m.verb) {
			item[m.http] = at.operation(m)
		}
	}
	if len(item) == 0 {
		return
	}
	var common []object
	if at.object {
		common = append(common, object{
			"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true, "description": "name of the " + at.kind.Kind,
		})
	}
	for _, p := range pathParameters() {
		if p["name"] != "namespace" || strings.Contains(path, "{namespace}") {
			common = append(common, shared(p))
		}
	}
	if at.across { // its one operation's are common to all
		get, _ := item["get"].(object)
		own, _ := get["parameters"].([]object)
		common = append(own, common...)
		delete(get, "parameters")
		slices.SortFunc(common, func(a, b object) int { return strings.Compare(a["$ref"].(string), b["$ref"].(string)) }) //nolint:forcetypeassert // they are references
	}
	item["parameters"] = common
	paths[path] = item
}

func (at place) operation(m method) object {
	body := object{"$ref": definitionsPrefix + at.bodies.object}
	answer := body
	switch {
	case m.verb == "list":
		answer = object{"$ref": definitionsPrefix + at.bodies.list}
	case m.verb == "deletecollection", m.verb == "delete" && !at.resource.ReturnDeleted:
		answer = object{"$ref": definitionsPrefix + definitionName(reflect.TypeFor[metav1.Status]())}
	}
	responses := object{"401": object{"description": "Unauthorized"}, "200": object{"description": "OK", "schema": answer}}
	switch m.verb {
	case "create":
		responses["201"] = object{"description": "Created", "schema": answer}
		responses["202"] = object{"description": "Accepted", "schema": answer}
	case "update":
		responses["201"] = object{"description": "Created", "schema": answer}
	case "patch":
		if !at.resource.Custom {
			responses["201"] = object{"description": "Created", "schema": answer}
		}
	case "delete":
		responses["202"] = object{"description": "Accepted", "schema": answer}
	}
	op := object{
		"operationId": at.id(m), "tags": []string{tag(at.resource)}, "schemes": []string{"https"},
		"description": at.description(m), "responses": responses,
		"consumes": at.consumes(m), "produces": []string{"application/json", "application/yaml"},
		"x-kubernetes-action": m.action, "x-kubernetes-group-version-kind": kinds(at.kind)[0],
	}
	if params := at.parameters(m, body); len(params) > 0 {
		op["parameters"] = params
	}
	return op
}

func (at place) consumes(m method) []string {
	switch {
	case m.verb == "patch":
		return at.resource.PatchTypes
	case at.resource.Custom:
		return []string{"application/json", "application/yaml"}
	}
	return []string{"*/*"}
}

// parameters are the body and what the options of the verb have.
func (at place) parameters(m method, body object) []object {
	var params []object
	switch m.verb {
	case "create", "update":
		params = append(params, object{"name": "body", "in": "body", "required": true, "schema": body})
	case "patch":
		params = append(params, shared(patchBody()))
	case "delete":
		params = append(params, shared(deleteBody()))
	case "deletecollection":
		if !at.resource.Custom {
			params = append(params, shared(deleteBody()))
		}
	}
	var query []object
	for _, t := range m.options {
		if at.leavesOut(m, t) {
			continue
		}
		query = append(query, queryParameters(t)...)
	}
	if m.verb == "deletecollection" && !at.resource.Custom {
		query = slices.DeleteFunc(query, func(p object) bool { return p["name"] == "watch" || p["name"] == "allowWatchBookmarks" })
	}
	slices.SortFunc(query, func(a, b object) int { return strings.Compare(parameterOf(a).name, parameterOf(b).name) })
	for _, p := range query {
		// kubectl before 1.27 looks for these two in the operation itself.
		if p["name"] != "dryRun" && p["name"] != "fieldValidation" {
			p = shared(p)
		}
		params = append(params, p)
	}
	return params
}

// leavesOut reports whether upstream does not list these options for the verb: the document
// of built-in kinds and that of custom ones come from different code.
func (at place) leavesOut(m method, options reflect.Type) bool {
	if at.resource.Custom {
		return m.verb == "deletecollection" && options == reflect.TypeFor[metav1.DeleteOptions]()
	}
	return m.verb == "get"
}

// id is the operation's: listAppsV1NamespacedDeployment.
func (at place) id(m method) string {
	group := at.resource.Group
	if group == "" {
		group = "core"
	}
	id := m.word + joined(strings.TrimSuffix(group, ".k8s.io"), true) + joined(at.resource.Version, true)
	if m.verb == "deletecollection" {
		id += "Collection"
	}
	if at.resource.Namespaced && !at.across {
		id += "Namespaced"
	}
	id += at.resource.Kind + joined(at.sub, true)
	if at.across {
		id += "ForAllNamespaces"
	}
	return id
}

// tag is what groups the operations of a version: apps_v1.
func tag(r *schema.Resource) string {
	group := r.Group
	if group == "" {
		group = "core"
	}
	return joined(strings.TrimSuffix(group, ".k8s.io"), false) + "_" + joined(r.Version, false)
}

// joined is s without the characters that names in programs cannot have; what follows one
// of them begins with a capital letter.
func joined(s string, capital bool) string {
	var out strings.Builder
	for i, c := range s {
		switch {
		case !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)):
			capital = true
		case capital:
			out.WriteRune(unicode.ToUpper(c))
			capital = false
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

func (at place) description(m method) string {
	of := ""
	if at.sub != "" {
		of = " " + at.sub + " of"
	}
	kind := at.resource.Kind
	article := " a "
	switch {
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"): // endpoints/installer.go GetArticleForNoun
		article = " "
	case strings.ContainsRune("AEIOU", rune(kind[0])):
		article = " an "
	}
	switch m.verb {
	case "list":
		if at.resource.Custom {
			return "list objects of kind " + kind
		}
		return "list or watch objects of kind " + kind
	case "deletecollection":
		return "delete collection of " + kind
	case "patch":
		return "partially update" + of + " the specified " + kind
	case "get", "update":
		return m.word + of + " the specified " + kind
	}
	return m.word + of + article + kind
}

// queryParameters are those that a type of options has as fields.
func queryParameters(t reflect.Type) []object {
	docs := docsOf(t)
	var params []object
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		of := field.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Slice { // dryRun: it may be repeated
			of = of.Elem()
		}
		if name == "" || of.Kind() == reflect.Struct {
			continue
		}
		typ, _ := scalar(of.Kind())["type"].(string)
		params = append(params, object{"name": name, "in": "query", "type": typ, "uniqueItems": true, "description": docs[name]})
	}
	return params
}

func pathParameters() []object {
	return []object{
		{
			"name": "namespace", "in": "path", "required": true, "type": "string", "uniqueItems": true,
			"description": "object name and auth scope, such as for teams and projects",
		},
		{
			"name": "pretty", "in": "query", "type": "string", "uniqueItems": true,
			"description": "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or " +
				"command-line HTTP tool (curl and wget).",
		},
	}
}

func patchBody() object {
	return object{"name": "body", "in": "body", "required": true, "schema": object{"$ref": definitionsPrefix + definitionName(reflect.TypeFor[metav1.Patch]())}}
}

func deleteBody() object {
	return object{"name": "body", "in": "body", "schema": object{"$ref": definitionsPrefix + definitionName(reflect.TypeFor[metav1.DeleteOptions]())}}
}

// shared is a reference to a parameter that many operations have.
func shared(p object) object {
	return object{"$ref": "#/parameters/" + parameterNames()[parameterOf(p)]}
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
