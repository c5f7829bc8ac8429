package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/schema"
)

// definitions collects the named schemas of one document.
type definitions struct {
	schemas object
	dialect dialect
	markers map[string]markers
}

// dialect is the version of OpenAPI that schemas are written in.
type dialect int

const (
	version3 dialect = iota
	// version2 knows neither oneOf nor allOf. A reference may have a description beside it, and
	// the types whose JSON is not what their Go fields say have definitions of their own.
	version2
	// merging is version 3 with the defaults of fields that are keys of lists.
	merging
)

func newDefinitions(d dialect) *definitions {
	return &definitions{schemas: object{}, dialect: d, markers: readMarkers()}
}

// addResource adds the schema of a kind and of everything it refers to, and
// returns its name.
func (d *definitions) addResource(r *schema.Resource) (string, error) {
	if r.GoType != nil {
		name := d.addGo(r.GoType)
		d.schemas[name].(object)["x-kubernetes-group-version-kind"] = []object{gvk(r)}
		return name, nil
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
		props["metadata"] = d.refTo(d.addGo(reflect.TypeFor[metav1.ObjectMeta]()), metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"])
		return true
	})
	props["apiVersion"] = stringSchema("APIVersion is the versioned schema of this object.")
	props["kind"] = stringSchema("Kind is the REST resource that this object represents.")
	props["metadata"] = d.refTo(d.addGo(reflect.TypeFor[metav1.ObjectMeta]()), "Standard object's metadata.")
	custom["x-kubernetes-group-version-kind"] = []object{gvk(r)}
	addSelectable(custom, r)
	d.schemas[name] = custom
	return name, nil
}

// addSelectable says which fields a custom resource can be selected by (apiextensions
// pkg/controller/openapi/builder).
func addSelectable(def object, r *schema.Resource) {
	if !r.Custom || len(r.Fields) == 0 {
		return
	}
	var fields []object
	for _, f := range r.Fields {
		fields = append(fields, object{"fieldPath": f.Label})
	}
	def["x-kubernetes-selectable-fields"] = fields
}

// addGo adds the definition of a struct type under its canonical name, once.
func (d *definitions) addGo(t reflect.Type) string {
	name := definitionName(t)
	if _, known := d.schemas[name]; known {
		return name
	}
	if special, ok := d.dialect.specialType(t); ok {
		d.schemas[name] = withDescription(special, docsOf(t)[""])
		return name
	}
	def := object{"type": "object"}
	d.schemas[name] = def // before its fields: types may refer to themselves
	docs := docsOf(t)
	if docs[""] != "" {
		def["description"] = docs[""]
	}
	props := object{}
	required := d.addFields(t, docs, props)
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
	return name
}

// addFields adds the JSON fields of t, inlined structs included, and returns the
// names of those that are always written.
func (d *definitions) addFields(t reflect.Type, docs map[string]string, props object) []string {
	var required []string
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
			required = append(required, d.addFields(inner, docsOf(inner), props)...)
			continue
		}
		if name == "" {
			continue
		}
		prop := d.schemaOf(field.Type, docs[name])
		if s := field.Tag.Get("patchStrategy"); s != "" {
			prop["x-kubernetes-patch-strategy"] = s
		}
		if k := field.Tag.Get("patchMergeKey"); k != "" {
			prop["x-kubernetes-patch-merge-key"] = k
		}
		props[name] = prop
		omitted := strings.Contains(options, "omit")
		if d.dialect == merging {
			delete(prop, "default")
			if value := keyDefault(t, field, omitted); value != nil {
				prop["default"] = value
			}
		}
		if !omitted {
			required = append(required, name)
		}
	}
	return required
}

// schemaOf returns the schema of a field's type.
func (d *definitions) schemaOf(t reflect.Type, description string) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if special, ok := d.dialect.specialType(t); ok && d.dialect != version2 {
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

// refTo is a reference with a description. In version 3 it is wrapped, as upstream does.
func (d *definitions) refTo(definition, description string) object {
	if d.dialect == version2 {
		return withDescription(object{"$ref": definitionsPrefix + definition}, description)
	}
	return withDescription(object{"allOf": []object{ref(definition)}, "default": object{}}, description)
}
