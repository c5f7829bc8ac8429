package gotype

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Normalize makes of a tree what encoding the struct that it was decoded into would make,
// in place. It returns false when it cannot: the tree has unknown members, values of other
// types, or something that this package knows nothing of. The tree may be partly changed
// then, but decoding it gives what it gave before.
func (s *Struct) Normalize(tree map[string]any) bool {
	for name, value := range tree {
		f := s.names.Get(name)
		if f == nil {
			return false
		}
		if value == nil {
			if f.typ.kind == other {
				return false
			}
			delete(tree, name) // decoding null leaves a field as it is
			continue
		}
		normal, empty, ok := f.typ.normalize(value)
		switch {
		case !ok:
			return false
		case empty && f.omitEmpty:
			delete(tree, name)
		case f.omitZero && f.typ.kind == structKind:
			return false // which of its members count as zero is up to its IsZero method
		case replaced(f.typ.kind):
			tree[name] = normal
		}
	}
	s.complete(tree)
	return true
}

// replaced reports whether normalize may return another value than it was given; maps and
// lists are changed in place.
func replaced(k kind) bool { return k == quantityKind || k == pointerKind }

// normalize returns what a value is encoded as, and whether it is what omitempty leaves out.
// Errors are as those of Normalize.
func (t *valueType) normalize(value any) (normal any, empty, ok bool) {
	switch v := value.(type) {
	case string:
		return t.text(value, v)
	case int64:
		switch t.kind { //nolint:exhaustive // no others are made from integers
		case integerKind:
			return value, v == 0, fits(v, t.of.Bits())
		case intOrStringKind:
			return value, false, fits(v, 32)
		case quantityKind:
			return quantity(strconv.FormatInt(v, 10))
		case pointerKind:
			return t.pointer(value)
		}
	case float64:
		switch t.kind { //nolint:exhaustive // no others are made from fractions
		case quantityKind:
			// A tree has fractions only with the digits that they had in the text.
			return quantity(strconv.FormatFloat(v, 'f', -1, 64))
		case pointerKind:
			return t.pointer(value)
		}
	case bool:
		switch t.kind { //nolint:exhaustive // no others are made from booleans
		case boolKind:
			return value, !v, true
		case pointerKind:
			return t.pointer(value)
		}
	case map[string]any:
		switch t.kind { //nolint:exhaustive // no others are made from objects
		case structKind:
			return value, false, t.object.Normalize(v)
		case fieldsKind:
			return value, false, true
		case mapKind:
			return value, len(v) == 0, t.values(v)
		case pointerKind:
			return t.pointer(value)
		}
	case []any:
		if t.kind == sliceKind {
			return value, len(v) == 0, t.items(v)
		}
	}
	return nil, false, false
}

// pointer is normalize for what a pointer points to, which is never empty.
func (t *valueType) pointer(value any) (normal any, empty, ok bool) {
	normal, _, ok = t.elem.normalize(value)
	return normal, false, ok
}

// values normalizes the values of a map. It knows nothing of null in one.
func (t *valueType) values(m map[string]any) bool {
	for key, value := range m {
		normal, _, ok := t.elem.normalize(value)
		if !ok {
			return false
		}
		if replaced(t.elem.kind) {
			m[key] = normal
		}
	}
	return true
}

// items normalizes the items of a list. It knows nothing of null in one.
func (t *valueType) items(list []any) bool {
	for i, value := range list {
		normal, _, ok := t.elem.normalize(value)
		if !ok {
			return false
		}
		list[i] = normal
	}
	return true
}

// text is normalize for a string s, which value is.
func (t *valueType) text(value any, s string) (normal any, empty, ok bool) {
	switch t.kind { //nolint:exhaustive // no others are made from strings
	case stringKind:
		return value, s == "", true
	case intOrStringKind:
		return value, false, true
	case bytesKind:
		return value, s == "", canonicalBase64(s)
	case quantityKind:
		if plainQuantity(s) {
			return value, false, true
		}
		return quantity(s)
	case timeKind:
		return value, false, canonicalTime(s, time.RFC3339)
	case microTimeKind:
		return value, false, canonicalTime(s, metav1.RFC3339Micro)
	case pointerKind:
		return t.pointer(value)
	}
	return nil, false, false
}

// quantity returns a quantity as it is encoded again.
func quantity(text string) (normal any, empty, ok bool) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, false, false
	}
	return q.String(), false, true
}

// plainQuantity reports whether a quantity is certainly encoded again as it is: most are a number below 1000 with a
// usual suffix.
func plainQuantity(s string) bool {
	digits := 0
	for digits < len(s) && digits < 3 && '0' <= s[digits] && s[digits] <= '9' {
		digits++
	}
	if digits == 0 || s[0] == '0' {
		return false
	}
	switch s[digits:] {
	case "", "m", "k", "M", "G", "Ki", "Mi", "Gi":
		return true
	}
	return false
}

func fits(n int64, bits int) bool {
	return bits == 64 || bits == 32 && math.MinInt32 <= n && n <= math.MaxInt32
}

// canonicalBase64 reports whether s is base64 as it would be encoded again.
func canonicalBase64(s string) bool {
	for i := range len(s) {
		if s[i] == '\n' || s[i] == '\r' { // the decoder skips them
			return false
		}
	}
	_, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil
}

// canonicalTime reports whether s is a time as it would be encoded again. The zero time,
// which is encoded as null, is not.
func canonicalTime(s, layout string) bool {
	t, err := time.Parse(layout, s)
	return err == nil && !t.IsZero() && t.UTC().Format(layout) == s
}
