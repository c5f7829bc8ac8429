// Package gotype does to decoded JSON what decoding it into a Go struct of k8s.io/api and
// encoding that does: it knows the fields and their types, and which of them are always
// there or never when they are empty. It does so in place, and in a quarter of the time.
//
// A [Struct] is what is known of a struct type, found once by reflection. It also decodes JSON so in one pass
// ([Struct.Decode]), converts between trees and structs ([Struct.Fill], [Struct.Tree]), and
// writes protobuf messages as JSON without either ([Struct.AppendMessage]).
package gotype

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Struct is a struct type as JSON has it. It is immutable and safe for concurrent use.
type Struct struct {
	fields  map[string]*field
	names   jsontree.Names[field] // the same ones
	ordered []*field              // the same ones
	empty   map[string]any        // the members of an empty one
	message message               // as protobuf has it
}

// field is a member of a struct.
type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
	typ   valueType
	// omitEmpty and omitZero are the options of the tag of that name.
	omitEmpty, omitZero bool
	// isZero reports whether omitzero leaves out a value; nil: the tag does not have it.
	isZero func(reflect.Value) bool
	label  string // the name as a member of an object begins with it
	slot   int    // place in message.members
}

// valueType is the type of a value.
type valueType struct {
	kind kind
	// elem is the type of the items of a slice, of the values of a map, or of what a
	// pointer points to.
	elem *valueType
	// object is set for structs.
	object    *Struct
	of        reflect.Type
	isMessage bool // in protobuf, whatever its kind
}

// kind is how a value is decoded and encoded.
type kind uint8

const (
	other kind = iota // one of which this package knows nothing
	stringKind
	integerKind
	boolKind
	bytesKind
	structKind
	sliceKind
	mapKind
	pointerKind
	timeKind
	microTimeKind
	quantityKind
	intOrStringKind
	fieldsKind // metav1.FieldsV1, any object
)

// cache has what Of has returned, by type: most kinds have types in common, and types are
// the program's, not a catalog's.
var cache structs //nolint:gochecknoglobals // as reflection's own caches

// structs are structs by type.
type structs struct {
	mu   sync.Mutex
	made map[reflect.Type]*Struct
}

// Of returns what is known of a struct type. Errors: t is no struct of an API type.
func Of(t reflect.Type) (*Struct, error) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	return cache.structOf(t)
}

// Empty returns a copy of a member of an empty struct as it is encoded, nil if that has none
// of this name.
func (s *Struct) Empty(name string) any { return runtime.DeepCopyJSONValue(s.empty[name]) }

// structOf is Of with mu held.
func (c *structs) structOf(t reflect.Type) (*Struct, error) {
	if s := c.made[t]; s != nil {
		return s, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is no struct", t)
	}
	empty, err := runtime.DefaultUnstructuredConverter.ToUnstructured(reflect.New(t).Interface())
	if err != nil {
		return nil, fmt.Errorf("encode an empty %s: %w", t, err)
	}
	s := &Struct{fields: map[string]*field{}, empty: empty}
	if c.made == nil {
		c.made = map[reflect.Type]*Struct{}
	}
	c.made[t] = s // before its fields: a type can contain itself
	var all places
	if err := c.addFields(s, t, nil, &all); err != nil {
		delete(c.made, t)
		return nil, err
	}
	s.names = jsontree.NamesOf(s.fields)
	s.message = messageOf(s.ordered, all)
	return s, nil
}

// addFields adds to s the fields of a struct type that is found by an index, its own or one
// that is embedded in it, and to all those that are in messages.
func (c *structs) addFields(s *Struct, t reflect.Type, index []int, all *places) error {
	for f := range t.Fields() {
		at := append(slices.Clip(index), f.Index...)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case name == "" && f.Anonymous:
			if f.Type.Kind() != reflect.Struct {
				return fmt.Errorf("%s embeds %s, which is no struct", t, f.Type)
			}
			var inside places
			if err := c.addFields(s, f.Type, at, &inside); err != nil {
				return err
			}
			all.addEmbedded(f, inside)
			continue
		case name == "":
			name = f.Name
		}
		typ, err := c.typeOf(f.Type)
		if err != nil {
			return err
		}
		added := &field{
			name: name, index: at, typ: *typ,
			omitEmpty: strings.Contains(options, "omitempty"), omitZero: strings.Contains(options, "omitzero"),
		}
		if added.omitZero {
			added.isZero = value.OmitZeroFunc(f.Type)
		}
		added.label = string(wire.AppendString(nil, name)) + ":"
		s.fields[name] = added
		s.ordered = append(s.ordered, added)
		all.add(f, added)
	}
	return nil
}

// known returns the kind of a type with an encoding of its own, other for one that this
// package does not know.
func known(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return timeKind
	case reflect.TypeFor[metav1.MicroTime]():
		return microTimeKind
	case reflect.TypeFor[resource.Quantity]():
		return quantityKind
	case reflect.TypeFor[intstr.IntOrString]():
		return intOrStringKind
	case reflect.TypeFor[metav1.FieldsV1]():
		return fieldsKind
	}
	return other
}

// typeOf returns what is known of a type. mu is held.
func (c *structs) typeOf(t reflect.Type) (*valueType, error) {
	v := &valueType{of: t, kind: known(t), isMessage: isMessage(t)}
	// A pointer has the methods of what it points to, and is null besides.
	if v.kind != other || t.Kind() != reflect.Pointer && encodesItself(t) {
		return v, nil
	}
	var err error
	switch t.Kind() { //nolint:exhaustive // interfaces, floats and others stay other
	case reflect.String:
		v.kind = stringKind
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.kind = integerKind
	case reflect.Bool:
		v.kind = boolKind
	case reflect.Struct:
		v.kind = structKind
		v.object, err = c.structOf(t)
	case reflect.Pointer:
		v.kind = pointerKind
		v.elem, err = c.typeOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			v.kind = bytesKind
			break
		}
		v.kind = sliceKind
		v.elem, err = c.typeOf(t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !encodesItself(t.Key()) {
			v.kind = mapKind
			v.elem, err = c.typeOf(t.Elem())
		}
	}
	return v, err
}

// encodesItself reports whether a type has methods for its encoding.
func encodesItself(t reflect.Type) bool {
	for _, with := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
		reflect.TypeFor[runtime.UnstructuredConverter](),
	} {
		if t.Implements(with) || reflect.PointerTo(t).Implements(with) {
			return true
		}
	}
	return false
}
