package persist

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"reflect"
	"strings"
)

// Shape returns a string that identifies the fields of a type, with their names and types,
// so that a program whose type has changed does not use an old file. The error wraps
// ErrLossy if JSON cannot restore the type: it has unexported fields, fields with the tag
// "-", functions or channels. A type with MarshalJSON and UnmarshalJSON, or the same for
// text, is trusted.
func Shape(t reflect.Type) (string, error) {
	s := shaper{sum: sha256.New(), seen: map[reflect.Type]bool{}}
	if err := s.walk(t, t.String()); err != nil {
		return "", err
	}
	return t.String() + " " + hex.EncodeToString(s.sum.Sum(nil)[:8]), nil
}

// shaper hashes a type.
type shaper struct {
	sum  hash.Hash
	seen map[reflect.Type]bool
}

// walk adds a type to the hash; at is its path, for errors.
func (s *shaper) walk(t reflect.Type, at string) error {
	fmt.Fprintf(s.sum, "%s %s.%s;", t.Kind(), t.PkgPath(), t.Name())
	if s.seen[t] {
		return nil
	}
	s.seen[t] = true
	if t.Kind() != reflect.Pointer && marshalsItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return s.walk(t.Elem(), at)
	case reflect.Map:
		if err := s.walk(t.Key(), at); err != nil {
			return err
		}
		return s.walk(t.Elem(), at)
	case reflect.Struct:
		return s.fields(t, at)
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr,
		reflect.Invalid:
		return fmt.Errorf("%w: %s is a %s, which JSON cannot represent", ErrLossy, at, t.Kind())
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64, reflect.String, reflect.Interface:
	}
	return nil
}

func (s *shaper) fields(t reflect.Type, at string) error {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		where := at + "." + f.Name
		// JSON has the exported fields of an embedded struct, also if its type is unexported.
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct
		if tag == "-" || !f.IsExported() && !embedded {
			return fmt.Errorf("%w: %s is not in their JSON", ErrLossy, where)
		}
		fmt.Fprintf(s.sum, "%s %q;", f.Name, name)
		if err := s.walk(f.Type, where); err != nil {
			return err
		}
	}
	return nil
}

// marshalsItself reports whether a type has its own methods for both directions.
func marshalsItself(t reflect.Type) bool {
	into, outOf := reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler]()
	intoText, outOfText := reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()
	// JSON finds the pointer's methods for values too, because objects are pointers.
	p := reflect.PointerTo(t)
	return p.Implements(into) && p.Implements(outOf) || p.Implements(intoText) && p.Implements(outOfText)
}
