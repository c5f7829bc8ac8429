package decode

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder reads one value into v, which is settable and zero.
type decoder func(r *reader, v reflect.Value) error

// compiler makes decoders; it knows those that are being made, for types that
// contain themselves.
type compiler struct {
	made  map[reflect.Type]*decoder
	sites int // how many there are
}

// of returns the decoder of a type. A type that is not plain has one that gives up.
func (c *compiler) of(t reflect.Type) decoder {
	if d, made := c.made[t]; made {
		return func(r *reader, v reflect.Value) error { return (*d)(r, v) }
	}
	var d decoder
	c.made[t] = &d
	d = c.make(t)
	return d
}

// at returns the decoder of a type for a place of its own, where it takes a value that
// was made of the same text before. Structs are copied then; what they refer to is
// shared.
func (c *compiler) at(t reflect.Type) decoder {
	inner := c.of(t)
	switch t.Kind() { //nolint:exhaustive // the others are small
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Map:
	case reflect.String:
		if !custom(t) && t != reflect.TypeFor[json.Number]() {
			return (&word{}).decode
		}
		return inner
	default:
		return inner
	}
	s := &site{id: c.sites}
	c.sites++
	return func(r *reader, v reflect.Value) error {
		if first := r.Peek(); first != '{' && first != '[' || !r.seeks(s) {
			return inner(r, v)
		}
		if known := r.recall(s); known != nil {
			v.Set(reflect.ValueOf(known))
			return nil
		}
		begin := r.Pos
		err := inner(r, v)
		if err == nil && r.missed(s, begin) {
			r.remember(s, begin, v.Interface())
		}
		return err
	}
}

// custom says whether a type decodes itself.
func custom(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (c *compiler) make(t reflect.Type) decoder {
	pointer := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return timestamp
	case t == reflect.TypeFor[json.Number]():
		return number
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return unmarshaler
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return fallback
	}
	switch t.Kind() { //nolint:exhaustive // the others fall back
	case reflect.String:
		return text
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer
	case reflect.Struct:
		return c.structure(t)
	case reflect.Pointer:
		return c.pointer(t)
	case reflect.Slice:
		switch elem := t.Elem(); {
		case elem.Kind() != reflect.Uint8:
			return c.slice(t)
		case !custom(elem):
			return binary
		}
	case reflect.Map:
		if key := t.Key(); key.Kind() == reflect.String && !custom(key) {
			return c.table(t)
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return c.anything()
		}
	}
	return fallback
}

// fallback leaves it to the slow decoder.
func fallback(*reader, reflect.Value) error { return errFallback }

func text(r *reader, v reflect.Value) error {
	if r.null() {
		return nil
	}
	b, err := r.text()
	if err == nil {
		v.SetString(r.strings.Of(b))
	}
	return err
}

// word is a place of its own for strings.
type word struct{ Word }

func (w *word) decode(r *reader, v reflect.Value) error {
	if r.memory == nil {
		return text(r, v)
	}
	if r.null() {
		return nil
	}
	b, err := r.text()
	if err == nil {
		v.SetString(w.Of(r.strings, b, r.counts))
	}
	return err
}

func boolean(r *reader, v reflect.Value) error {
	switch r.Peek() {
	case 't':
		v.SetBool(true)
		return must(r.Literal("true"))
	case 'f':
		v.SetBool(false)
		return must(r.Literal("false"))
	}
	return must(r.null())
}

func integer(r *reader, v reflect.Value) error {
	if r.null() {
		return nil
	}
	n, err := r.int64()
	if err != nil || v.OverflowInt(n) {
		return errFallback
	}
	v.SetInt(n)
	return nil
}

// binary reads a []byte, which is in base64.
func binary(r *reader, v reflect.Value) error {
	if r.null() {
		v.SetZero()
		return nil
	}
	text, err := r.text()
	if err != nil {
		return err
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	if err != nil {
		return errFallback
	}
	v.SetBytes(slices.Clip(b[:n]))
	return nil
}

// number reads a json.Number. One in quotes is unusual.
func number(r *reader, v reflect.Value) error {
	if r.null() {
		return nil
	}
	t, _, err := r.Number()
	if err == nil {
		v.SetString(r.strings.Of(r.Data[t.Start:t.End]))
	}
	return err
}

// anything reads what a field of type any takes.
func (c *compiler) anything() decoder {
	n := &pathNode{place: elsewhere}
	n.id, n.tree = c.sites, &pathTree{other: n} // one place for all
	c.sites++
	return func(r *reader, v reflect.Value) error {
		value, err := r.any(n, nil)
		if err == nil && value != nil {
			v.Set(reflect.ValueOf(value))
		}
		return err
	}
}

func unmarshaler(r *reader, v reflect.Value) error {
	raw, err := r.value()
	if err != nil {
		return err
	}
	into, is := reflect.TypeAssert[json.Unmarshaler](v.Addr())
	if !is || into.UnmarshalJSON(raw) != nil {
		return errFallback
	}
	return nil
}

func (c *compiler) pointer(t reflect.Type) decoder {
	elem := t.Elem()
	inner := c.of(elem)
	return func(r *reader, v reflect.Value) error {
		if r.null() {
			v.SetZero()
			return nil
		}
		into := reflect.New(elem)
		v.Set(into)
		return inner(r, into.Elem())
	}
}

func (c *compiler) slice(t reflect.Type) decoder {
	inner := c.at(t.Elem())
	// usual is the length that the last one had, which the next one mostly has too.
	var usual atomic.Int32
	return func(r *reader, v reflect.Value) error {
		if r.null() {
			v.SetZero()
			return nil
		}
		if r.Peek() != '[' {
			return errFallback
		}
		more, err := r.Enter(']')
		if err != nil {
			return err
		}
		if !more {
			v.Set(reflect.MakeSlice(t, 0, 0))
			return nil
		}
		n, room := 0, max(int(usual.Load()), 1)
		for v.Grow(room); more; n++ {
			if n == v.Cap() {
				v.Grow(n)
			}
			v.SetLen(n + 1)
			if err := inner(r, v.Index(n)); err != nil {
				return err
			}
			if more, err = r.Next(']'); err != nil {
				return err
			}
		}
		if n < room || n < v.Cap() && n > room { // what is kept has no room to spare
			exact := reflect.MakeSlice(t, n, n)
			reflect.Copy(exact, v)
			v.Set(exact)
		}
		v.SetCap(n) // Grow may have taken the rest of a size class
		if n = min(n, 64); n != int(usual.Load()) {
			usual.Store(int32(n)) //nolint:gosec // at most 64
		}
		return nil
	}
}

func (c *compiler) table(t reflect.Type) decoder {
	elem := t.Elem()
	inner := c.at(elem)
	plain := t == reflect.TypeFor[map[string]string]()
	return func(r *reader, v reflect.Value) error {
		if r.null() {
			v.SetZero()
			return nil
		}
		if r.Peek() != '{' {
			return errFallback
		}
		if plain {
			return r.pairs(v)
		}
		m := reflect.MakeMap(t)
		v.Set(m)
		key, value := reflect.New(t.Key()).Elem(), reflect.New(elem).Elem()
		return r.members(func(r *reader, name []byte) error {
			key.SetString(r.strings.Of(name))
			value.SetZero()
			if err := inner(r, value); err != nil {
				return err
			}
			m.SetMapIndex(key, value)
			return nil
		})
	}
}

// pairs reads a map of strings.
func (r *reader) pairs(v reflect.Value) error {
	m := map[string]string{}
	v.Set(reflect.ValueOf(m))
	return r.members(func(r *reader, name []byte) error {
		key := r.strings.Of(name)
		if r.null() {
			m[key] = ""
			return nil
		}
		value, err := r.text()
		m[key] = r.strings.Of(value)
		return err
	})
}

// field is one member that a struct knows.
type field struct {
	name   string
	index  []int
	decode decoder
	strip  bool
}

// maxFields is how many fields a struct may have; those of Kubernetes have up to 50.
const maxFields = 128

// structure compiles a struct. What encoding/json has rules for that Kubernetes'
// types do not need makes it fall back.
func (c *compiler) structure(t reflect.Type) decoder {
	fields, plain := c.fields(t, nil)
	if !plain || len(fields) > maxFields {
		return fallback
	}
	named := make(map[string]int, len(fields))
	for i, f := range fields {
		if _, twice := named[f.name]; twice {
			return fallback
		}
		named[f.name] = i
	}
	return func(r *reader, v reflect.Value) error {
		if r.null() {
			return nil
		}
		if r.Peek() != '{' {
			return errFallback
		}
		var seen [maxFields / 64]uint64
		likely := 0 // members mostly come in the order of the fields
		more, err := r.Enter('}')
		for more && err == nil {
			var name []byte
			if name, err = r.name(); err != nil {
				return err
			}
			i, known := likely, likely < len(fields) && fields[likely].name == string(name)
			if !known {
				i, known = named[string(name)]
			}
			if known {
				// One that comes twice is merged by encoding/json; that is not plain.
				bit := uint64(1) << (i % 64)
				if seen[i/64]&bit != 0 {
					return errFallback
				}
				seen[i/64] |= bit
			}
			if !known || fields[i].strip && r.strip {
				_, err = r.Skip()
			} else {
				err = fields[i].decode(r, fields[i].of(v))
				likely = i + 1
			}
			if err == nil {
				more, err = r.Next('}')
			}
		}
		return err
	}
}

func (f *field) of(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

// fields lists the members of a struct, those of embedded structs included.
func (c *compiler) fields(t reflect.Type, above []int) (all []field, plain bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		index := append(append([]int{}, above...), i)
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case strings.Contains(options, "string"), tagged && strings.ContainsAny(name, "'\"\\"):
			return nil, false
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct || !f.IsExported() {
				return nil, false
			}
			inner, plain := c.fields(f.Type, index)
			if !plain {
				return nil, false
			}
			all = append(all, inner...)
			continue
		case !f.IsExported():
			return nil, false
		case name == "":
			name = f.Name
		}
		strip := t == reflect.TypeFor[metav1.ObjectMeta]() && name == managedFields
		all = append(all, field{name: name, index: index, decode: c.at(f.Type), strip: strip})
	}
	return all, true
}
