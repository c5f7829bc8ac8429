package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// definitions collects the named schemas of one document.
type definitions struct {
	schemas  object
	dialect  dialect
	markers  map[string]markers
	comments comments
}

// dialect is the version of OpenAPI that schemas are written in.
type dialect int

const (
	// version3 wraps a reference that has something beside it, such as a description, in allOf.
	version3 dialect = iota
	// version2 knows neither oneOf nor allOf, and upstream's has no defaults.
	version2
	// merging has in place, without definitions of their own, the types whose JSON is not what
	// their Go fields say. Only fields that are keys of lists have defaults.
	merging
)

func newDefinitions(d dialect) *definitions {
	if d == merging {
		return &definitions{schemas: object{}, dialect: d, markers: readMarkers()}
	}
	return &definitions{schemas: object{}, dialect: d, markers: allMarkers(), comments: allComments()}
}

// Who builds one document often builds all. They must not be modified.
//
//nolint:gochecknoglobals // tables, read at the first request of a document
var (
	allMarkers  = sync.OnceValue(readMarkers)
	allComments = sync.OnceValue(readComments)
)

// refPrefix is what stands before the name of a definition in a reference.
func (d dialect) refPrefix() string {
	if d == version2 {
		return "#/definitions/"
	}
	return "#/components/schemas/"
}

// addResource adds what says how a resource merges, and returns its name: the schema of a
// built-in kind and of everything that it refers to, or that of a custom resource as it is.
func (d *definitions) addResource(r *kinds.Resource) (string, error) {
	if r.GoType != nil {
		return d.addGo(r.GoType), nil
	}
	name := reverse(r.Group) + "." + r.Version + "." + r.Kind
	custom := object{"type": "object"}
	if len(r.OpenAPI) > 0 {
		if err := json.Unmarshal(r.OpenAPI, &custom); err != nil {
			return "", fmt.Errorf("schema of %s: %w", r.GR(), err)
		}
	}
	props, ok := custom["properties"].(object)
	if !ok {
		props = object{}
		custom["properties"] = props
	}
	embedded(custom, func(def object) bool {
		props, ok := def["properties"].(object)
		if !ok {
			props = object{}
			def["properties"] = props
		}
		props["apiVersion"], props["kind"] = embeddedHeads()
		props["metadata"] = d.refTo(d.addGo(reflect.TypeFor[metav1.ObjectMeta]()),
			metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"])
		return true
	})
	props["apiVersion"] = stringSchema("APIVersion is the versioned schema of this object.")
	props["kind"] = stringSchema("Kind is the REST resource that this object represents.")
	props["metadata"] = d.refTo(d.addGo(reflect.TypeFor[metav1.ObjectMeta]()), "Standard object's metadata.")
	d.schemas[name] = custom
	return name, nil
}

// addGo adds the definition of a struct type under its canonical name, once.
func (d *definitions) addGo(t reflect.Type) string {
	name := definitionName(t)
	if _, known := d.schemas[name]; known {
		return name
	}
	said := d.comments.Types[name]
	docs := docsOf(t)
	description := cmp.Or(said.Description, docs[""])
	if special, ok := d.dialect.specialType(t); ok {
		d.schemas[name] = withDescription(special, description)
		return name
	}
	def := withDescription(object{"type": "object"}, description)
	d.schemas[name] = def // before its fields: types may refer to themselves
	if len(said.Unions) > 0 {
		def["x-kubernetes-unions"] = said.Unions
	}
	if kind := partKind(t); kind.Kind != "" && d.dialect == version3 {
		def["x-kubernetes-group-version-kind"] = kindsExtension(kind)
	}
	props := object{}
	required := d.addFields(t, said.Fields, props)
	if len(props) > 0 {
		def["properties"] = props
	}
	if len(required) > 0 {
		slices.Sort(required)
		def["required"] = required
	}
	if m, known := d.markers[name]; known {
		m.apply(def, props)
	}
	if d.dialect == version3 {
		wrapReferences(props)
	}
	return name
}

// partKind is the kind of the objects that are a part of other kinds, and therefore in documents that
// do not have the kind itself.
func partKind(t reflect.Type) kinds.GroupVersionKind {
	switch t {
	case reflect.TypeFor[corev1.PersistentVolumeClaim](), reflect.TypeFor[metav1.APIGroup]():
		return kinds.GroupVersionKind{Version: "v1", Kind: t.Name()}
	}
	return kinds.GroupVersionKind{}
}

// wrapReferences puts the references that have something beside them into allOf, because
// version 3 ignores what is beside a reference.
func wrapReferences(props object) {
	for _, prop := range props {
		if prop, ok := prop.(object); ok && prop["$ref"] != nil && len(prop) > 1 {
			prop["allOf"] = []object{{"$ref": prop["$ref"]}}
			delete(prop, "$ref")
		}
	}
}

// addFields adds the JSON fields of t, inlined structs included, and returns the
// names of those that are always written.
func (d *definitions) addFields(t reflect.Type, said map[string]fieldComments, props object) []string {
	var required []string
	docs := docsOf(t)
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && field.Anonymous || strings.Contains(options, "inline") {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			required = append(required, d.addFields(inner, said, props)...)
			continue
		}
		if name == "" {
			continue
		}
		prop := d.schemaOf(field.Type, cmp.Or(said[name].Description, docs[name]))
		if s := field.Tag.Get("patchStrategy"); s != "" {
			prop["x-kubernetes-patch-strategy"] = s
		}
		if k := field.Tag.Get("patchMergeKey"); k != "" {
			prop["x-kubernetes-patch-merge-key"] = k
		}
		props[name] = prop
		omitted := strings.Contains(options, "omit")
		if value := d.defaultOf(t, field, said[name].Default); value != nil {
			prop["default"] = value
		}
		if !omitted {
			required = append(required, name)
		}
	}
	return required
}

// defaultOf returns the default of a field in this dialect, nil for none: what its comment says,
// else the zero value of what is always written (kube-openapi pkg/generators mustEnforceDefault).
func (d *definitions) defaultOf(of reflect.Type, field reflect.StructField, said any) any {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	omitted := strings.Contains(options, "omit")
	switch d.dialect {
	case version2:
		return nil
	case merging:
		return keyDefault(of, field, omitted)
	case version3:
	}
	switch kind := field.Type.Kind(); {
	case said != nil:
		return said
	case kind == reflect.Struct:
		if _, special := d.dialect.specialType(field.Type); special {
			return nil
		}
		return object{}
	case omitted:
		return nil
	case kind == reflect.String:
		return ""
	case kind == reflect.Bool:
		return false
	case kind >= reflect.Int && kind <= reflect.Float64:
		return 0
	}
	return nil
}

// schemaOf returns the schema of a field's type.
func (d *definitions) schemaOf(t reflect.Type, description string) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if special, ok := d.dialect.specialType(t); ok && d.dialect == merging {
		return withDescription(special, description)
	} else if ok {
		return d.refTo(d.addGo(t), description)
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		return d.refTo(d.addGo(t), description)
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return withDescription(object{"type": "string", "format": "byte"}, description)
	case kind == reflect.Slice, kind == reflect.Array:
		return withDescription(object{"type": "array", "items": d.schemaOf(t.Elem(), "")}, description)
	case kind == reflect.Map:
		return withDescription(object{"type": "object", "additionalProperties": d.schemaOf(t.Elem(), "")}, description)
	case kind == reflect.String && t.PkgPath() != "":
		return d.comments.Enums[definitionName(t)].apply(object{"type": "string"}, description)
	default:
		return withDescription(scalar(kind), description)
	}
}

func scalar(k reflect.Kind) object {
	switch {
	case k == reflect.Bool:
		return object{"type": "boolean"}
	case k == reflect.Int, k == reflect.Int64, k == reflect.Uint, k == reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	case k > reflect.Int && k < reflect.Uintptr:
		return object{"type": "integer", "format": "int32"}
	case k == reflect.Float32, k == reflect.Float64:
		return object{"type": "number", "format": "double"}
	case k == reflect.String:
		return object{"type": "string"}
	}
	return object{} // interface: anything
}

// stringSchema is a string with a description.
func stringSchema(description string) object {
	return object{"type": "string", "description": description}
}

func withDescription(o object, description string) object {
	if description != "" {
		o["description"] = description
	}
	return o
}

// refTo is a reference with a description. In version 3 it must be wrapped: [wrapReferences].
func (d *definitions) refTo(definition, description string) object {
	return withDescription(object{"$ref": d.dialect.refPrefix() + definition}, description)
}
