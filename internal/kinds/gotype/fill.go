package gotype

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Fill sets the fields of the empty struct that object points to from a tree, as decoding
// it would. Object must point to a struct of the type of s. It returns false when it
// cannot; the struct is partly filled then.
func (s *Struct) Fill(object any, tree map[string]any) bool {
	return s.fill(reflect.ValueOf(object).Elem(), tree)
}

func (s *Struct) fill(to reflect.Value, tree map[string]any) bool {
	for name, value := range tree {
		f := s.names.Get(name)
		if f == nil {
			return false
		}
		at := to.Field(f.index[0])
		for _, i := range f.index[1:] { // of a struct that is embedded
			at = at.Field(i)
		}
		if !f.typ.set(at, value) {
			return false
		}
	}
	return true
}

// set sets a value from one of a tree.
func (t *valueType) set(to reflect.Value, value any) bool {
	if value == nil {
		return t.kind != other
	}
	switch t.kind {
	case stringKind:
		s, is := value.(string)
		if is {
			to.SetString(s)
		}
		return is
	case integerKind:
		n, is := value.(int64)
		if !is || to.OverflowInt(n) {
			return false
		}
		to.SetInt(n)
		return true
	case boolKind:
		b, is := value.(bool)
		if is {
			to.SetBool(b)
		}
		return is
	case structKind:
		members, is := value.(map[string]any)
		return is && t.object.fill(to, members)
	case pointerKind:
		to.Set(reflect.New(t.elem.of))
		return t.elem.set(to.Elem(), value)
	case sliceKind:
		items, is := value.([]any)
		return is && t.setItems(to, items)
	case mapKind:
		members, is := value.(map[string]any)
		return is && t.setMembers(to, members)
	case bytesKind, timeKind, microTimeKind, quantityKind, intOrStringKind, fieldsKind:
		return setEncoded(to.Addr().Interface(), value)
	case other:
	}
	return false
}

func (t *valueType) setItems(to reflect.Value, items []any) bool {
	if items == nil {
		return true
	}
	to.Set(reflect.MakeSlice(t.of, len(items), len(items)))
	for i, item := range items {
		if item == nil || !t.elem.set(to.Index(i), item) {
			return false
		}
	}
	return true
}

func (t *valueType) setMembers(to reflect.Value, members map[string]any) bool {
	if members == nil {
		return true
	}
	switch to := to.Addr().Interface().(type) { // nearly all maps are of these types
	case *map[string]string:
		*to = make(map[string]string, len(members))
		for name, member := range members {
			text, is := member.(string)
			if !is {
				return false
			}
			(*to)[name] = text
		}
		return true
	case *corev1.ResourceList:
		*to = make(corev1.ResourceList, len(members))
		for name, member := range members {
			text, is := member.(string)
			q, err := resource.ParseQuantity(text)
			if !is || err != nil {
				return false
			}
			(*to)[corev1.ResourceName(name)] = q
		}
		return true
	}
	to.Set(reflect.MakeMapWithSize(t.of, len(members)))
	for name, member := range members {
		value := reflect.New(t.elem.of).Elem()
		if member == nil || !t.elem.set(value, member) {
			return false
		}
		to.SetMapIndex(reflect.ValueOf(name).Convert(t.of.Key()), value)
	}
	return true
}

// setEncoded sets a value that has an encoding of its own.
func setEncoded(to, value any) bool {
	text, is := value.(string)
	switch to := to.(type) {
	case *[]byte:
		decoded, err := base64.StdEncoding.DecodeString(text)
		*to = decoded
		return is && err == nil
	case *resource.Quantity:
		q, err := resource.ParseQuantity(text)
		*to = q
		return is && err == nil
	case *metav1.Time:
		t, err := time.Parse(time.RFC3339, text)
		to.Time = t.Local()
		return is && err == nil
	case *metav1.MicroTime:
		t, err := time.Parse(metav1.RFC3339Micro, text)
		to.Time = t.Local()
		return is && err == nil
	case *intstr.IntOrString:
		if n, isNumber := value.(int64); isNumber {
			*to = intstr.FromInt32(int32(n)) //nolint:gosec // checked below
			return int64(to.IntVal) == n
		}
		*to = intstr.FromString(text)
		return is
	case *metav1.FieldsV1:
		raw, err := json.Marshal(value)
		to.SetRawBytes(raw)
		return err == nil
	}
	return false
}
