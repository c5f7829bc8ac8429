package protobuf

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/internal/decode"
)

// unmarshaler is what a message's own decoder is.
type unmarshaler interface{ Unmarshal(raw []byte) error }

// compiler makes decoders of the types whose Unmarshal is generated from the tags of their
// fields: those of Kubernetes, except a few. All others decode themselves.
type compiler struct {
	made  map[reflect.Type]decoder
	sites uint32 // how many there are
}

// of returns the decoder of a type's values, nil if there is none.
func (c *compiler) of(t reflect.Type) decoder {
	switch t.Kind() { //nolint:exhaustive // the others have none
	case reflect.String:
		return (&word{}).text
	case reflect.Struct:
		return c.structure(t)
	case reflect.Pointer:
		return c.pointer(t)
	case reflect.Slice:
		if decodesItself(t) {
			return itself
		}
		if t.Elem().Kind() == reflect.Uint8 {
			return binary
		}
	}
	return nil
}

func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[unmarshaler]())
}

// structure returns the decoder of a struct.
func (c *compiler) structure(t reflect.Type) decoder {
	if made := c.made[t]; made != nil {
		return made
	}
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return timestamp
	case !decodesItself(t):
		return nil
	case !ofKubernetes(t):
		return itself
	}
	m := &structure{}
	c.made[t] = m.decode // for types that contain themselves
	if !c.fields(m, t) {
		c.made[t] = itself
	}
	return c.made[t]
}

// object returns the decoder of a kind, nil if it decodes itself.
func (c *compiler) object(t reflect.Type) decoder {
	m := &structure{}
	if !ofKubernetes(t) || !c.fields(m, t) {
		return nil
	}
	return m.decode
}

// ofKubernetes reports whether a type is of a module whose types the tests compare.
func ofKubernetes(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "k8s.io/api/") || strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/")
}

// fields adds the fields of a struct. It reports whether all are plain.
func (c *compiler) fields(m *structure, t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("protobuf")
		if !tagged {
			// They are no part of the message.
			if f.Type == reflect.TypeFor[metav1.TypeMeta]() || f.IsExported() && f.Type.Kind() == reflect.Interface {
				continue
			}
			return false
		}
		part := strings.Split(tag, ",")
		if len(part) < 2 || !f.IsExported() {
			return false
		}
		number, err := strconv.Atoi(part[1])
		if err != nil || number < 1 || number >= maxFields {
			return false
		}
		made := &field{index: i, managed: t == reflect.TypeFor[metav1.ObjectMeta]() && f.Name == "ManagedFields"}
		if !c.field(made, f.Type) {
			return false
		}
		for len(m.fields) <= number {
			m.fields = append(m.fields, nil)
		}
		m.fields[number] = made
	}
	return true
}

// field completes a field of a type. It reports whether it is plain. Generated code follows
// the type, whatever else the tag says.
func (c *compiler) field(f *field, t reflect.Type) bool {
	f.wire = protowire.BytesType
	switch {
	case number(t) != nil:
		f.wire, f.number = protowire.VarintType, number(t)
		return true
	case t.Kind() == reflect.Slice && number(t.Elem()) != nil:
		f.wire, f.bytes, f.repeated = protowire.VarintType, numbers(t), true
		return true
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !decodesItself(t):
		f.bytes, f.repeated = c.slice(t), true
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		f.bytes, f.repeated = c.table(t), true
	default:
		f.bytes = c.of(t)
	}
	f.merges = !scalar(t)
	f.bytes = c.at(t, f.bytes)
	return f.bytes != nil
}

// at returns the decoder of a type for a place of its own, where it takes a value that was
// made of the same bytes before. Structs are copied then; what they refer to is shared.
func (c *compiler) at(t reflect.Type, inner decoder) decoder {
	if inner == nil || scalar(t) {
		return inner
	}
	s := &site{id: c.sites}
	c.sites++
	return func(r *reader, raw []byte, v reflect.Value) error {
		if len(raw) < minText || len(raw) > maxText || !s.Seeks(r.counts) {
			return inner(r, raw, v)
		}
		known, hash := r.recall(s, raw)
		if known != nil {
			v.Set(reflect.ValueOf(known))
			return nil
		}
		if err := inner(r, raw, v); err != nil {
			return err
		}
		if r.missed(s, hash) {
			r.memory.keep(&leaf{hash: hash, site: s, text: string(raw), value: v.Interface()})
		}
		return nil
	}
}

// scalar reports whether a type holds text or bytes, or points to one that does.
func scalar(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// word is a place of its own for strings.
type word struct{ decode.Word }

func (w *word) text(r *reader, raw []byte, v reflect.Value) error {
	v.SetString(w.Of(r.strings, raw, r.counts))
	return nil
}

func binary(_ *reader, raw []byte, v reflect.Value) error {
	b := make([]byte, len(raw))
	copy(b, raw)
	v.SetBytes(b)
	return nil
}

// itself reads what has its own decoder.
func itself(r *reader, raw []byte, v reflect.Value) error {
	into, is := reflect.TypeAssert[unmarshaler](v.Addr())
	if !is || r.strip && v.Type() == reflect.TypeFor[metav1.ObjectMeta]() || into.Unmarshal(raw) != nil {
		return errFallback
	}
	if v.Kind() == reflect.Slice {
		v.SetCap(v.Len()) // so that append copies what is shared
	}
	return nil
}

// timestamp reads a metav1.Time, which has its own decoder for what is unusual.
func timestamp(r *reader, raw []byte, v reflect.Value) error {
	const seconds, nanos = 1 << 3, 2 << 3
	into, is := reflect.TypeAssert[*metav1.Time](v.Addr())
	if is && len(raw) > 1 && raw[0] == seconds {
		n, size := protowire.ConsumeVarint(raw[1:])
		if rest := raw[1+max(size, 0):]; size > 0 && len(rest) == 2 && rest[0] == nanos && rest[1] == 0 {
			into.Time = time.Unix(int64(n), 0) //nolint:gosec // as it was encoded
			return nil
		}
	}
	return itself(r, raw, v)
}

// number returns how to set a field to a varint.
func number(t reflect.Type) func(v reflect.Value, n uint64) {
	switch t.Kind() { //nolint:exhaustive // the others have none
	case reflect.Bool:
		return func(v reflect.Value, n uint64) { v.SetBool(n != 0) }
	case reflect.Int32:
		return func(v reflect.Value, n uint64) { v.SetInt(int64(int32(n))) } //nolint:gosec // as generated code does
	case reflect.Int64:
		return func(v reflect.Value, n uint64) { v.SetInt(int64(n)) } //nolint:gosec // as generated code does
	case reflect.Pointer:
		if set := number(t.Elem()); set != nil && t.Elem().Kind() != reflect.Pointer {
			return func(v reflect.Value, n uint64) {
				into := reflect.New(t.Elem())
				set(into.Elem(), n)
				v.Set(into)
			}
		}
	}
	return nil
}

// numbers returns the decoder of repeated varints.
func numbers(t reflect.Type) decoder {
	set := number(t.Elem())
	return func(_ *reader, raw []byte, v reflect.Value) error {
		_, tag := uvarint(raw, 0)
		var all []uint64
		for pos := 0; pos < len(raw); {
			var n uint64
			n, pos = uvarint(raw, pos+tag)
			all = append(all, n)
		}
		v.Set(reflect.MakeSlice(t, len(all), len(all)))
		for i, n := range all {
			set(v.Index(i), n)
		}
		return nil
	}
}

func (c *compiler) pointer(t reflect.Type) decoder {
	elem := t.Elem()
	if elem.Kind() != reflect.Struct && elem.Kind() != reflect.String && !decodesItself(elem) {
		return nil
	}
	inner := c.of(elem)
	if inner == nil {
		return nil
	}
	return func(r *reader, raw []byte, v reflect.Value) error {
		into := reflect.New(elem)
		v.Set(into)
		return inner(r, raw, into.Elem())
	}
}

func (c *compiler) slice(t reflect.Type) decoder {
	only := c.of(t.Elem())
	several := c.at(t.Elem(), only)
	if only == nil {
		return nil
	}
	return func(r *reader, raw []byte, v reflect.Value) error {
		n := count(raw)
		v.Set(reflect.MakeSlice(t, n, n))
		inner := several
		if n == 1 {
			inner = only // the list itself was not found, so its only value is hardly known
		}
		i := 0
		return values(raw, func(value []byte) error {
			i++
			return inner(r, value, v.Index(i-1))
		})
	}
}

func (c *compiler) table(t reflect.Type) decoder {
	if t == reflect.TypeFor[map[string]string]() {
		return pairs
	}
	inner := c.of(t.Elem())
	if inner == nil {
		return nil
	}
	list := t.Elem().Kind() == reflect.Slice && decodesItself(t.Elem())
	return func(r *reader, raw []byte, v reflect.Value) error {
		m := reflect.MakeMapWithSize(t, count(raw))
		v.Set(m)
		name, into := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		return values(raw, func(of []byte) error {
			key, value, err := entry(of)
			if err != nil {
				return err
			}
			name.SetString(r.strings.Of(key))
			into.SetZero()
			if list {
				into.Set(reflect.MakeSlice(t.Elem(), 0, 0)) // as in generated code
			}
			if err := inner(r, value, into); err != nil {
				return err
			}
			m.SetMapIndex(name, into)
			return nil
		})
	}
}

// pairs reads a map of strings.
func pairs(r *reader, raw []byte, v reflect.Value) error {
	m := make(map[string]string, count(raw))
	v.Set(reflect.ValueOf(m))
	return values(raw, func(of []byte) error {
		key, value, err := entry(of)
		if err == nil {
			m[r.strings.Of(key)] = r.strings.Of(value)
		}
		return err
	})
}
