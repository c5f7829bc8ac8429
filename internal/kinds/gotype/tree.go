package gotype

import (
	"encoding/base64"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// Tree returns what the struct that object points to is encoded as. Object must point to a struct of the
// type of s. It returns false when it cannot: the struct has something that this package knows nothing of.
func (s *Struct) Tree(object any) (map[string]any, bool) {
	return s.tree(reflect.ValueOf(object).Elem())
}

func (s *Struct) tree(from reflect.Value) (map[string]any, bool) {
	tree := map[string]any{}
	for _, f := range s.ordered {
		v := from.FieldByIndex(f.index)
		if f.omitEmpty && isEmpty(v) || f.isZero != nil && f.isZero(v) {
			continue
		}
		value, ok := f.typ.value(v)
		if !ok {
			return nil, false
		}
		tree[f.name] = value
	}
	return tree, true
}

// isEmpty reports whether omitempty leaves out a value.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() { //nolint:exhaustive // others are never empty
	case reflect.String, reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.Pointer, reflect.Interface, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Float32, reflect.Float64:
		return v.IsZero()
	}
	return false
}

// value is Tree for a value.
func (t *valueType) value(v reflect.Value) (any, bool) {
	switch t.kind {
	case stringKind:
		return v.String(), true
	case integerKind:
		return v.Int(), true
	case boolKind:
		return v.Bool(), true
	case structKind:
		return t.object.tree(v)
	case pointerKind:
		if v.IsNil() {
			return nil, true
		}
		return t.elem.value(v.Elem())
	case bytesKind:
		if v.IsNil() {
			return nil, true
		}
		return base64.StdEncoding.EncodeToString(v.Bytes()), true
	case sliceKind:
		return t.listed(v)
	case mapKind:
		return t.mapped(v)
	case timeKind, microTimeKind, quantityKind, intOrStringKind, fieldsKind:
		return encoded(v)
	case other:
	}
	return nil, false
}

func (t *valueType) listed(v reflect.Value) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	list := make([]any, v.Len())
	for i := range list {
		var ok bool
		if list[i], ok = t.elem.value(v.Index(i)); !ok {
			return nil, false
		}
	}
	return list, true
}

func (t *valueType) mapped(v reflect.Value) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	tree := make(map[string]any, v.Len())
	if texts, is := reflect.TypeAssert[map[string]string](v); is {
		for name, text := range texts {
			tree[name] = text
		}
		return tree, true
	}
	for members := v.MapRange(); members.Next(); {
		value, ok := t.elem.value(members.Value())
		if !ok {
			return nil, false
		}
		tree[members.Key().String()] = value
	}
	return tree, true
}

// encoded is value for a type that has an encoding of its own.
func encoded(v reflect.Value) (any, bool) {
	switch v := v.Interface().(type) {
	case metav1.Time:
		return v.ToUnstructured(), true
	case metav1.MicroTime:
		if v.IsZero() {
			return nil, true
		}
		return v.UTC().Format(metav1.RFC3339Micro), true
	case resource.Quantity:
		return v.String(), true
	case intstr.IntOrString:
		if v.Type == intstr.Int {
			return int64(v.IntVal), true
		}
		return v.StrVal, true
	case metav1.FieldsV1:
		fields, err := jsontree.DecodePlain(v.GetRawBytes())
		return fields, err == nil
	}
	return nil, false
}
