package openapi

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unicode"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
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
			{
				"deletecollection", "delete", "deletecollection", "delete",
				[]reflect.Type{list, reflect.TypeFor[metav1.DeleteOptions]()},
			},
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
	resource *kinds.Resource
	kind     kinds.GroupVersionKind // of the bodies
	bodies   bodies
	verbs    []string
	sub      string
	across   bool // all namespaces
	object   bool // the path has a name
	watch    bool // below /watch/, which is deprecated
}

// places returns where the paths of a resource lead: to its collections, the object and its
// subresources.
func (d *definitions) places(r *kinds.Resource, b bodies) iter.Seq2[string, place] {
	return func(yield func(string, place) bool) {
		at := place{resource: r, kind: r.GVK(), bodies: b, verbs: r.Verbs}
		collection := basePath(r) + "/" + r.Plural
		if r.Namespaced {
			across := at
			across.across, across.verbs = true, only(r.Verbs, "list")
			if !yield(collection, across) {
				return
			}
			collection = basePath(r) + "/namespaces/{namespace}/" + r.Plural
		}
		if !yield(collection, at) {
			return
		}
		at.object, at.verbs = true, only(r.Verbs, "get", "update", "patch", "delete")
		if !yield(collection+"/{name}", at) {
			return
		}
		for _, part := range d.parts(at) {
			if !yield(collection+"/{name}/"+part.sub, part) {
				return
			}
		}
	}
}

// parts are the places of the subresources of an object.
func (d *definitions) parts(at place) []place {
	var all []place
	r := at.resource
	if r.HasStatus {
		status := at
		status.sub, status.verbs = "status", only(r.Verbs, "get", "update", "patch")
		all = append(all, status)
	}
	if r.Scale != nil {
		scale := at
		scale.sub, scale.verbs = "scale", []string{"get", "update", "patch"}
		if !r.Custom {
			scale.kind = scaleKind()
		}
		scale.bodies.object = definitionName(reflect.TypeFor[autoscalingv1.Scale]())
		all = append(all, scale)
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
		all = append(all, part)
	}
	return all
}

func scaleKind() kinds.GroupVersionKind {
	return kinds.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
}

func only(verbs []string, wanted ...string) []string {
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return !slices.Contains(wanted, v) })
}

// methods are those that are served at a place.
func (at place) methods() []method {
	if at.watch {
		m := method{"watch", "get", "watchlist", "watch", []reflect.Type{reflect.TypeFor[metav1.ListOptions]()}}
		if at.object {
			m.action = "watch"
		}
		return []method{m}
	}
	return slices.DeleteFunc(methods(!at.object), func(m method) bool { return !slices.Contains(at.verbs, m.verb) })
}

// answer is the name of the definition of what a method answers with.
func (at place) answer(m method) string {
	switch {
	case at.watch:
		return definitionName(reflect.TypeFor[metav1.WatchEvent]())
	case m.verb == "list":
		return at.bodies.list
	case m.verb == "deletecollection", m.verb == "delete" && !at.resource.ReturnDeleted:
		return definitionName(reflect.TypeFor[metav1.Status]())
	}
	return at.bodies.object
}

// codes are the status codes of a method's answers, with their descriptions.
func (at place) codes(m method) map[string]string {
	codes := map[string]string{"200": "OK"}
	if m.verb == "create" || m.verb == "update" || m.verb == "patch" && !at.resource.Custom {
		codes["201"] = "Created"
	}
	if m.verb == "create" || m.verb == "delete" {
		codes["202"] = "Accepted"
	}
	return codes
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

// produces are the media types of a method's answers.
func (at place) produces(m method) []string {
	types := []string{"application/json", "application/yaml"}
	if at.resource.Custom {
		return types
	}
	types = append(types, "application/vnd.kubernetes.protobuf")
	if at.watch || m.verb == "list" && slices.Contains(at.resource.Verbs, "watch") {
		types = append(types, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	return types
}

// query returns what the options of the verb have as parameters, by name.
func (at place) query(m method) []object {
	var query []object
	for _, t := range m.options {
		if at.leavesOut(m, t) {
			continue
		}
		query = append(query, queryParameters(t)...)
	}
	if m.verb == "deletecollection" && !at.resource.Custom {
		query = slices.DeleteFunc(query, func(p object) bool {
			return p["name"] == "watch" || p["name"] == "allowWatchBookmarks"
		})
	}
	slices.SortFunc(query, func(a, b object) int { return strings.Compare(parameterOf(a).name, parameterOf(b).name) })
	return query
}

// common are the parameters that all methods of a path have, without those of a method.
func (at place) common(path string) []object {
	var common []object
	if at.object {
		common = append(common, nameParameter(at.kind.Kind))
	}
	for _, p := range pathParameters() {
		if p["name"] != "namespace" || strings.Contains(path, "{namespace}") {
			common = append(common, p)
		}
	}
	return common
}

func nameParameter(kind string) object {
	return object{
		"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true,
		"description": "name of the " + kind,
	}
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
	id := m.word + name(at.resource.Group, true) + joined(at.resource.Version, true)
	if m.verb == "deletecollection" {
		id += "Collection"
	}
	if at.resource.Namespaced && !at.across {
		id += "Namespaced"
	}
	id += at.resource.Kind + joined(at.sub, true)
	if at.watch && !at.object {
		id += "List"
	}
	if at.across {
		id += "ForAllNamespaces"
	}
	return id
}

// tag is what groups the operations of a version: apps_v1.
func tag(r *kinds.Resource) string {
	return name(r.Group, false) + "_" + joined(r.Version, false)
}

// name is that of a group in ids and tags.
func name(group string, capital bool) string {
	return joined(strings.TrimSuffix(cmp.Or(group, "core"), ".k8s.io"), capital)
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
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"): // apiserver endpoints/installer.go
		article = " "
	case strings.ContainsRune("AEIOU", rune(kind[0])):
		article = " an "
	}
	switch m.verb {
	case "watch":
		const instead = " deprecated: use the 'watch' parameter with a list operation instead"
		if at.object {
			return "watch changes to an object of kind " + kind + "." + instead +
				", filtered to a single item with the 'fieldSelector' parameter."
		}
		return "watch individual changes to a list of " + kind + "." + instead + "."
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
			"description": "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent " +
				"indicates a browser or " +
				"command-line HTTP tool (curl and wget).",
		},
	}
}
