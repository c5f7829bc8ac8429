package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
)

// custom returns the fragment of a custom resource with this schema; nil allows any content.
func custom(form Form, r *kinds.Resource, openAPI []byte) (Fragment, error) {
	defs := &definitions{schemas: object{}, dialect: form.dialect()} // it has no Go types
	def, err := defs.dialect.customSchema(openAPI)
	if err != nil {
		return Fragment{}, fmt.Errorf("schema of %s: %w", r.GVK(), err)
	}
	def["x-kubernetes-group-version-kind"] = kindsExtension(r.GVK())
	addSelectable(def, r)
	b := bodies{object: customName(r, r.Kind), list: customName(r, r.ListKind)}
	defs.schemas[b.object] = def
	defs.addList(b.list, b.object, r)
	addSelectable(defs.schemas[b.list].(object), r)
	paths := object{}
	if form == JSON3 {
		defs.addPaths(paths, r, b)
	} else {
		defs.addSwaggerPaths(paths, r, b)
	}
	return form.encode(paths, defs.schemas)
}

// addSelectable says which fields a custom resource can be selected by (apiextensions
// pkg/controller/openapi/builder).
func addSelectable(def object, r *kinds.Resource) {
	if !r.Custom || len(r.Fields) == 0 {
		return
	}
	var fields []object
	for _, f := range r.Fields {
		fields = append(fields, object{"fieldPath": f.Label})
	}
	def["x-kubernetes-selectable-fields"] = fields
}

// customName is the name of a definition. A group below api.k8s.io could take the name of a
// built-in kind.
func customName(r *kinds.Resource, kind string) string {
	name := reverse(r.Group) + "." + r.Version + "." + kind
	if strings.HasPrefix(name, "io.k8s.api.") {
		name += "_v2" // as upstream renames the second of two
	}
	return name
}

// customSchema turns the openAPIV3Schema of a version into what a document says of it. Version 2
// cannot say all. There, kubectl takes an object without properties for one with any content, and
// one with properties for one with no others: an object that keeps unknown fields has none.
func (d dialect) customSchema(openAPI []byte) (object, error) {
	anything := object{"type": "object"}
	if len(openAPI) == 0 {
		return anything, nil
	}
	var v1 apiextensionsv1.JSONSchemaProps
	if err := kjson.UnmarshalCaseSensitivePreserveInts(openAPI, &v1); err != nil {
		return nil, err
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &props, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	if structural.XPreserveUnknownFields && d == version2 {
		return anything, nil
	}
	if structural = structural.Unfold(); d == version2 {
		structural = openapiv2.ToStructuralOpenAPIV2(structural)
	}
	text, err := json.Marshal(structural.ToKubeOpenAPI())
	if err != nil {
		return nil, err
	}
	var def object
	if err := json.Unmarshal(text, &def); err != nil {
		return nil, err
	}
	docs := metav1.TypeMeta{}.SwaggerDoc()
	d.addHead(def, stringSchema(docs["apiVersion"]), stringSchema(docs["kind"]))
	if d == version2 {
		withoutDefaults(def)
	}
	embedded(def, func(def object) bool {
		if def["x-kubernetes-preserve-unknown-fields"] == true && d == version2 {
			return false // kubectl would refuse other members
		}
		apiVersion, kind := embeddedHeads()
		d.addHead(def, apiVersion, kind)
		return true
	})
	return def, nil
}

// addHead adds the members that every object has.
func (d dialect) addHead(def, apiVersion, kind object) {
	props, ok := def["properties"].(object)
	if !ok {
		props = object{}
		def["properties"] = props
	}
	meta := object{
		"$ref":        d.refPrefix() + definitionName(reflect.TypeFor[metav1.ObjectMeta]()),
		"description": metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"],
	}
	if d == version3 {
		wrapReferences(object{"metadata": meta})
	}
	props["apiVersion"], props["kind"], props["metadata"] = apiVersion, kind, meta
}

// withoutDefaults removes the defaults in a schema, which upstream publishes in version 3 only.
func withoutDefaults(def object) {
	delete(def, "default")
	if props, ok := def["properties"].(object); ok {
		for _, p := range props {
			if p, ok := p.(object); ok {
				withoutDefaults(p)
			}
		}
	}
	for _, below := range []string{"items", "additionalProperties"} {
		if s, ok := def[below].(object); ok {
			withoutDefaults(s)
		}
	}
}
