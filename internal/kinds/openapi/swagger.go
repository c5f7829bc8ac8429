package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

const (
	definitionsPrefix = "#/definitions/"
	conventions       = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)

// Fragment is what some resources add to a document, in one of the forms: the members of
// "paths" and of "definitions". A document is fragments in any order.
type Fragment struct {
	Paths       []byte
	Definitions []byte
	// Parameters are those of other servers: see [Form.With].
	Parameters []byte
}

// Form is a version of OpenAPI in an encoding.
type Form int

// The forms: version 2 in JSON and in the messages of the package openapi.v2 (gnostic), version
// 3 in JSON.
const (
	JSON Form = iota + 1
	Protobuf
	JSON3
)

func (form Form) dialect() dialect {
	if form == JSON3 {
		return version3
	}
	return version2
}

// BuiltIn returns the fragment of version 2 of the built-in resources among these, with the
// definitions that the fragments of custom resources refer to. Those of version 3 are
// [BuiltIn3] and [Shared3].
func BuiltIn(form Form, resources []*kinds.Resource) (Fragment, error) {
	paths, defs := builtIn(resources)
	return form.encode(paths, defs.schemas)
}

// Custom returns the fragment of one custom resource. A schema that cannot be
// expressed is left out: the definition then is an object of any content, as
// upstream's controller makes of schemas that are not structural.
func Custom(form Form, r *kinds.Resource) (Fragment, error) {
	fragment, err := custom(form, r, r.OpenAPI)
	if err != nil {
		return custom(form, r, nil)
	}
	return fragment, nil
}

// builtIn returns the paths and definitions of the built-in resources.
func builtIn(resources []*kinds.Resource) (object, *definitions) {
	paths, defs := object{}, newDefinitions(version2)
	shared := []reflect.Type{
		reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[metav1.ListMeta](), reflect.TypeFor[metav1.Patch](),
	}
	for _, t := range shared {
		defs.addGo(t)
	}
	for _, r := range resources {
		if r.Custom {
			continue
		}
		name := defs.addKind(r.GoType, r.GVK())
		list := name + "List"
		if slices.Contains(r.Verbs, "list") {
			defs.addList(list, name, r)
		}
		defs.addSwaggerPaths(paths, r, bodies{object: name, list: list})
	}
	defs.addKind(reflect.TypeFor[metav1.Status](), kinds.GroupVersionKind{Version: "v1", Kind: "Status"})
	defs.addKind(reflect.TypeFor[metav1.DeleteOptions](), kinds.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"})
	defs.addKind(reflect.TypeFor[autoscalingv1.Scale](), kinds.GroupVersionKind{
		Group: "autoscaling", Version: "v1", Kind: "Scale",
	})
	return paths, defs
}

// addKind adds the definition of a Go type that is an object of a kind.
func (d *definitions) addKind(t reflect.Type, kind kinds.GroupVersionKind) (name string) {
	name = d.addGo(t)
	def, _ := d.schemas[name].(object) // addGo made it
	def["x-kubernetes-group-version-kind"] = kindsExtension(kind)
	return name
}

// addList adds the definition of the lists of a resource.
func (d *definitions) addList(list, of string, r *kinds.Resource) {
	kind := r.GVK()
	kind.Kind = r.ListKind
	docs := metav1.TypeMeta{}.SwaggerDoc()
	description := r.ListKind + " is a list of " + r.Kind
	metaText, itemsText := "Standard list metadata. More info: "+conventions+"#types-kinds", "List of "+r.Plural+". More info: "+
		conventions
	if !r.Custom {
		said := d.comments.Types[list]
		description, metaText, itemsText = said.Description, said.Fields["metadata"].Description, said.Fields["items"].Description
	}
	meta := d.refTo(definitionName(reflect.TypeFor[metav1.ListMeta]()), metaText)
	if d.dialect == version3 && !r.Custom {
		meta["default"] = object{}
	}
	props := object{
		"apiVersion": stringSchema(docs["apiVersion"]), "kind": stringSchema(docs["kind"]), "metadata": meta,
		"items": withDescription(object{"type": "array", "items": d.refTo(of, "")}, itemsText),
	}
	if d.dialect == version3 {
		wrapReferences(props)
	}
	d.schemas[list] = withDescription(object{
		"type": "object", "required": []string{"items"}, "properties": props,
		"x-kubernetes-group-version-kind": kindsExtension(kind),
	}, description)
}

func kindsExtension(kind kinds.GroupVersionKind) []object {
	return []object{{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}}
}

// encode writes the members of both objects.
func (form Form) encode(paths, defs object) (Fragment, error) {
	if form == Protobuf {
		return encodeProtobuf(paths, defs)
	}
	var f Fragment
	var err error
	if f.Paths, err = members(paths); err != nil {
		return f, fmt.Errorf("encode paths: %w", err)
	}
	if f.Definitions, err = members(defs); err != nil {
		return f, fmt.Errorf("encode definitions: %w", err)
	}
	return f, nil
}

// members writes the members of an object, without its braces.
func members(o object) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		if err := enc.Encode(name); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1) // the end of a line
		out.WriteByte(':')
		if err := enc.Encode(o[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Truncate(out.Len() - 1)
	}
	return out.Bytes(), nil
}
