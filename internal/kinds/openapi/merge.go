package openapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gapless-io/gapless/internal/kinds"
)

// MergeTypes returns how the fields of resources merge, by kind: what server-side apply goes
// by. It is what upstream makes of its OpenAPI documents (kube-openapi schemaconv). The kind
// of a custom resource without a schema is missing.
func MergeTypes(resources ...*kinds.Resource) (map[kinds.GroupVersionKind]typed.ParseableType, error) {
	d := newDefinitions(merging)
	names := map[kinds.GroupVersionKind]string{}
	for _, r := range resources {
		if r.GoType == nil && len(r.OpenAPI) == 0 {
			continue
		}
		name, err := d.addResource(r)
		if err != nil {
			return nil, err
		}
		names[r.GVK()] = name
	}
	parser := &typed.Parser{Schema: smdschema.Schema{Types: []smdschema.TypeDef{
		{Name: atomicName, Atom: untyped(atomicName, smdschema.Atomic)},
		{Name: deducedName, Atom: untyped(deducedName, smdschema.Separable)},
	}}}
	for name, def := range d.schemas {
		parser.Schema.Types = append(parser.Schema.Types, smdschema.TypeDef{Name: name, Atom: atom(def.(object), false)})
	}
	types := make(map[kinds.GroupVersionKind]typed.ParseableType, len(names))
	for kind, name := range names {
		types[kind] = parser.Type(name)
	}
	return types, nil
}

// Names of the types of values without a schema: a value of the first is one field, of the
// second each of its members is one.
const (
	atomicName  = "__untyped_atomic_"
	deducedName = "__untyped_deduced_"
)

func untyped(members string, merged smdschema.ElementRelationship) smdschema.Atom {
	scalar, atomic := smdschema.Scalar("untyped"), atomicName
	return smdschema.Atom{
		Scalar: &scalar,
		List:   &smdschema.List{ElementType: smdschema.TypeRef{NamedType: &atomic}, ElementRelationship: smdschema.Atomic},
		Map:    &smdschema.Map{ElementType: smdschema.TypeRef{NamedType: &members}, ElementRelationship: merged},
	}
}

// atom returns how a value with a schema merges. Below a schema that preserves unknown
// fields, lax, all do.
func atom(s object, lax bool) smdschema.Atom {
	lax = lax || s["x-kubernetes-preserve-unknown-fields"] == true
	typ, _ := s["type"].(string)
	if s["x-kubernetes-map-type"] == "atomic" && s["properties"] == nil {
		return untyped(atomicName, smdschema.Atomic)
	}
	scalar := func(kind smdschema.Scalar) smdschema.Atom { return smdschema.Atom{Scalar: &kind} }
	// Go types that are text or a number have it; in a custom resource it is a rule about values.
	_, ofGoType := s["oneOf"].([]object)
	switch {
	case typ == "object":
		return smdschema.Atom{Map: mapOf(s, lax)}
	case typ == "array":
		return smdschema.Atom{List: listOf(s, lax)}
	case typ == "integer", typ == "number":
		return scalar(smdschema.Numeric)
	case typ == "boolean":
		return scalar(smdschema.Boolean)
	case typ == "string" && (s["format"] == nil || s["format"] == "byte"):
		return scalar(smdschema.String)
	case typ == "string", ofGoType:
		return scalar("untyped")
	}
	a := scalar("untyped")
	a.List, a.Map = listOf(s, lax), mapOf(s, lax)
	return a
}

func mapOf(s object, lax bool) *smdschema.Map {
	m := &smdschema.Map{}
	props, _ := s["properties"].(object)
	for name, prop := range props {
		if prop, ok := prop.(object); ok {
			m.Fields = append(m.Fields, smdschema.StructField{Name: name, Type: typeRef(prop, lax), Default: prop["default"]})
		}
	}
	deduced := deducedName
	switch more := s["additionalProperties"].(type) {
	case nil:
		if lax || len(props) == 0 {
			m.ElementType.NamedType = &deduced
		}
	case object:
		m.ElementType = typeRef(more, lax)
	case bool:
		if more {
			m.ElementType.NamedType = &deduced
		}
	}
	m.ElementRelationship = mapType(s)
	return m
}

func listOf(s object, lax bool) *smdschema.List {
	atomic := atomicName
	l := &smdschema.List{ElementType: smdschema.TypeRef{NamedType: &atomic}, ElementRelationship: smdschema.Atomic}
	if items, ok := s["items"].(object); ok {
		l.ElementType = typeRef(items, lax)
	}
	strategy, _ := s["x-kubernetes-patch-strategy"].(string)
	switch listType := s["x-kubernetes-list-type"]; {
	case listType == "set", listType == "map":
		l.ElementRelationship, l.Keys = smdschema.Associative, texts(s["x-kubernetes-list-map-keys"])
	case listType == nil && slices.Contains(strings.Split(strategy, ","), "merge"):
		l.ElementRelationship, l.Keys = smdschema.Associative, texts(s["x-kubernetes-patch-merge-key"])
	}
	return l
}

func mapType(s object) smdschema.ElementRelationship {
	switch s["x-kubernetes-map-type"] {
	case "atomic":
		return smdschema.Atomic
	case "granular":
		return smdschema.Separable
	}
	return ""
}

// texts returns one text, or those of a list.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		all := make([]string, 0, len(v))
		for _, text := range v {
			all = append(all, fmt.Sprint(text))
		}
		return all
	}
	return nil
}

// typeRef refers to the definition that a schema refers to, or has the schema in it.
func typeRef(s object, lax bool) smdschema.TypeRef {
	name, _ := s["$ref"].(string)
	if all, ok := s["allOf"].([]object); ok && len(all) == 1 {
		name, _ = all[0]["$ref"].(string)
	}
	nullable, _ := s["nullable"].(bool)
	if name == "" {
		return smdschema.TypeRef{Inlined: atom(s, lax), Nullable: nullable}
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	ref := smdschema.TypeRef{NamedType: &name, Nullable: nullable}
	if merged := mapType(s); merged != "" {
		ref.ElementRelationship = &merged
	}
	return ref
}

// keyDefault returns the default of a field that can be the key of an item in a list; nil
// when it has none, so that each item must have it.
func keyDefault(of reflect.Type, field reflect.StructField, omitted bool) any {
	switch {
	case field.Name == "Protocol" &&
		(of == reflect.TypeFor[corev1.ContainerPort]() || of == reflect.TypeFor[corev1.ServicePort]()):
		return string(corev1.ProtocolTCP)
	case of == reflect.TypeFor[corev1.LocalObjectReference]():
		return "" // it is optional for compatibility, with an empty default
	case omitted:
		return nil
	case field.Type.Kind() == reflect.String:
		return ""
	case field.Type.Kind() == reflect.Int32, field.Type.Kind() == reflect.Int64:
		return int64(0)
	}
	return nil
}
