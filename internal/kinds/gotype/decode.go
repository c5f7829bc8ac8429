package gotype

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// Decode decodes a JSON object into the tree that Normalize makes of what jsontree.DecodePlain makes of it, in one pass. It
// returns false for a body with which one of these fails, and perhaps for others of large structs; and says whether it has
// left out an empty list.
func (s *Struct) Decode(body []byte) (tree map[string]any, lessLists, ok bool) {
	r := decoder{Reader: jsontree.NewReader(body)}
	if r.Peek() != '{' {
		return nil, false, false
	}
	tree, ok = s.decode(&r)
	return tree, r.lessLists, ok && r.Ended()
}

// decoder is a decoding under way.
type decoder struct {
	jsontree.Reader

	lessLists bool
}

// decode reads a struct.
func (s *Struct) decode(r *decoder) (tree map[string]any, ok bool) {
	if len(s.fields) > 64 { // those of seen
		return nil, false
	}
	tree = map[string]any{}
	seen := uint64(0)
	more, err := r.Enter('}')
	for more && err == nil {
		name, failed := r.Name()
		f := s.names.Get(name)
		if failed != nil || f == nil {
			return nil, false
		}
		bit := uint64(1) << f.slot
		if seen&bit != 0 || !f.decode(r, tree) { // duplicate names are unusual, also if the first was null
			return nil, false
		}
		seen |= bit
		more, err = r.Next('}')
	}
	if err != nil {
		return nil, false
	}
	s.complete(tree)
	return tree, true
}

// complete adds what an empty struct is encoded with, and the tree lacks.
func (s *Struct) complete(tree map[string]any) {
	if len(s.empty) == 0 { // as of most
		return
	}
	for name, value := range s.empty {
		if _, has := tree[name]; !has {
			tree[name] = runtime.DeepCopyJSONValue(value)
		}
	}
}

// decode reads the value of a field into the tree of its struct.
func (f *field) decode(r *decoder, tree map[string]any) bool {
	if r.Peek() == 'n' { // decoding null leaves a field as it is
		return f.typ.kind != other && r.Literal("null")
	}
	if f.typ.kind == stringKind {
		text, err := r.Text()
		if err == nil && (text != "" || !f.omitEmpty) {
			tree[f.name] = text
		}
		return err == nil
	}
	value, empty, ok := f.typ.decode(r)
	if !ok || f.omitZero && f.typ.kind == structKind && (!empty || !f.omitEmpty) {
		return false // which of the members of a struct count as zero is up to its IsZero method
	}
	if !empty || !f.omitEmpty {
		tree[f.name] = value
	} else if f.typ.kind == sliceKind {
		r.lessLists = true
	}
	return true
}

// decode reads a value, and returns what normalize makes of it. It knows nothing of null.
func (t *valueType) decode(r *decoder) (normal any, empty, ok bool) {
	switch c := r.Peek(); t.kind {
	case structKind:
		if c != '{' {
			return nil, false, false
		}
		normal, ok = t.object.decode(r)
		return normal, false, ok
	case mapKind:
		if c != '{' {
			return nil, false, false
		}
		return t.decodeValues(r)
	case sliceKind:
		if c != '[' {
			return nil, false, false
		}
		return t.decodeItems(r)
	case pointerKind:
		normal, _, ok = t.elem.decode(r)
		return normal, false, ok // what a pointer points to is never empty
	case other:
		return nil, false, false
	case stringKind, integerKind, boolKind, bytesKind, timeKind, microTimeKind, quantityKind, intOrStringKind, fieldsKind:
	}
	value, err := r.Value()
	if err != nil {
		return nil, false, false
	}
	return t.normalize(value)
}

// decodeValues reads a map.
func (t *valueType) decodeValues(r *decoder) (normal any, empty, ok bool) {
	values := map[string]any{}
	more, err := r.Enter('}')
	for more && err == nil {
		name, failed := r.Name()
		if failed != nil {
			return nil, false, false
		}
		value, _, ok := t.elem.decode(r)
		if !ok {
			return nil, false, false
		}
		before := len(values)
		if values[name] = value; len(values) == before {
			return nil, false, false
		}
		more, err = r.Next('}')
	}
	return values, len(values) == 0, err == nil
}

// decodeItems reads a list.
func (t *valueType) decodeItems(r *decoder) (normal any, empty, ok bool) {
	items := []any{}
	more, err := r.Enter(']')
	for more && err == nil {
		item, _, ok := t.elem.decode(r)
		if !ok {
			return nil, false, false
		}
		items = append(items, item)
		more, err = r.Next(']')
	}
	return items, len(items) == 0, err == nil
}
