package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gapless-io/gapless/kube/scan"
)

// Canonical encodes an object's tree in the stored form: apiVersion, kind and
// metadata first, everything else in byte order of the names, no
// metadata.resourceVersion, no white space and no escapes that JSON does not need.
// The same tree always gives the same bytes, so that a write that changes nothing
// is found by comparing them. It takes what JSON decoders make (int64, float64
// and json.Number keep their value) and whatever else encoding/json encodes.
// Errors: values that JSON cannot express, and trees deeper than 10 000.
func Canonical(tree map[string]any) ([]byte, error) {
	return CanonicalManaged(tree, nil)
}

// CanonicalManaged is Canonical for a tree without metadata.managedFields, which are given as
// JSON in the canonical form; it is Canonical if there are none.
func CanonicalManaged(tree map[string]any, managed []byte) ([]byte, error) {
	return encodeRoot(withoutVersion(tree), managed)
}

// withoutVersion returns the tree without metadata.resourceVersion. It changes nothing.
func withoutVersion(tree map[string]any) map[string]any {
	meta, is := tree["metadata"].(map[string]any)
	if _, has := meta["resourceVersion"]; !is || !has {
		return tree
	}
	tree, meta = maps.Clone(tree), maps.Clone(meta)
	delete(meta, "resourceVersion")
	tree["metadata"] = meta
	return tree
}

// encodeRoot encodes an object with the members first that tell what it is, and with
// managedFields, if these are given.
func encodeRoot(tree map[string]any, managed []byte) ([]byte, error) {
	e := encoders.Get().(*encoder) //nolint:forcetypeassert // the pool holds nothing else
	defer e.release()
	e.buf, e.members, e.managed = append(e.buf[:0], '{'), e.members[:0], managed
	first := [...]string{"apiVersion", "kind", "metadata"}
	for _, key := range first {
		if err := e.rootMember(tree, key); err != nil {
			return nil, err
		}
	}
	for _, m := range e.sorted(tree) {
		if slices.Contains(first[:], m.name) {
			continue
		}
		if err := e.rootMember(tree, m.name); err != nil {
			return nil, err
		}
	}
	return bytes.Clone(append(e.buf, '}')), nil
}

// encoders are used again: each write encodes an object.
var encoders = sync.Pool{New: func() any { return &encoder{} }} //nolint:gochecknoglobals // scratch memory

// encoder appends JSON to buf.
type encoder struct {
	buf     []byte
	members []member // of the objects that are being encoded, outermost first
	managed []byte   // what metadata.managedFields is, besides what the tree has
}

// member is one of an object.
type member struct {
	name  string
	value any
}

// release keeps the encoder for another object, unless this one was large.
func (e *encoder) release() {
	if cap(e.buf) <= 64<<10 && cap(e.members) <= 1<<10 {
		clear(e.members[:cap(e.members)])
		encoders.Put(e)
	}
}

// sorted returns an object's members, and others, in byte order of their names. The slice is valid
// until the members of the object around it are dropped.
func (e *encoder) sorted(m map[string]any, others ...member) []member {
	begin := len(e.members)
	e.members = append(e.members, others...)
	for name, value := range m {
		e.members = append(e.members, member{name, value})
	}
	members := e.members[begin:]
	sortMembers(members)
	return members
}

// sortMembers sorts by name: nearly all objects have so few members that nothing is faster than to insert each.
func sortMembers(members []member) {
	const few = 24
	if len(members) > few {
		slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
		return
	}
	for i := 1; i < len(members); i++ {
		m, at := members[i], i
		for ; at > 0 && m.name < members[at-1].name; at-- {
			members[at] = members[at-1]
		}
		members[at] = m
	}
}

func (e *encoder) rootMember(tree map[string]any, key string) error {
	value, has := tree[key]
	if !has {
		return nil
	}
	var err error
	if meta, is := value.(map[string]any); is && key == "metadata" && len(e.managed) > 0 {
		err = e.metadata(meta)
	} else {
		err = e.member(key, value, 1)
	}
	if err != nil {
		return fmt.Errorf("encode object: %w", err)
	}
	return nil
}

// metadata encodes metadata with the managedFields that were given.
func (e *encoder) metadata(meta map[string]any) error {
	const managed = "managedFields"
	e.name("metadata")
	e.buf = append(e.buf, '{')
	begin := len(e.members)
	for _, m := range e.sorted(meta, member{name: managed}) {
		if m.name == managed {
			e.name(managed)
			e.buf = append(e.buf, e.managed...)
		} else if err := e.member(m.name, m.value, 2); err != nil {
			return err
		}
	}
	e.members = e.members[:begin]
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) member(key string, value any, depth int) error {
	e.name(key)
	return e.value(value, depth)
}

// name begins a member of an object.
func (e *encoder) name(key string) {
	if e.buf[len(e.buf)-1] != '{' {
		e.buf = append(e.buf, ',')
	}
	e.buf = append(AppendString(e.buf, key), ':')
}

func (e *encoder) value(value any, depth int) error {
	switch v := value.(type) {
	case nil:
		e.buf = append(e.buf, "null"...)
	case string:
		e.buf = AppendString(e.buf, v)
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case int64:
		e.buf = strconv.AppendInt(e.buf, v, 10)
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	case float64:
		return e.float(v)
	case json.Number:
		return e.number(v)
	case map[string]any:
		return e.object(v, depth)
	case []any:
		return e.array(v, depth)
	default:
		return e.other(v)
	}
	return nil
}

func (e *encoder) object(m map[string]any, depth int) error {
	if m == nil {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if depth >= maxDepth {
		return errors.New("nested too deeply")
	}
	e.buf = append(e.buf, '{')
	begin := len(e.members)
	for _, m := range e.sorted(m) {
		if err := e.member(m.name, m.value, depth+1); err != nil {
			return err
		}
	}
	e.members = e.members[:begin]
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) array(a []any, depth int) error {
	if a == nil {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if depth >= maxDepth {
		return errors.New("nested too deeply")
	}
	e.buf = append(e.buf, '[')
	for i, value := range a {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(value, depth+1); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

// float writes the shortest form that reads back as f, in encoding/json's choice
// of notation.
func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("the number %v has no form in JSON", f)
	}
	size := math.Abs(f)
	if size != 0 && (size < 1e-6 || size >= 1e21) {
		e.buf = strconv.AppendFloat(e.buf, f, 'e', -1, 64)
		// e-09 is written e-9.
		if n := len(e.buf); n >= 4 && e.buf[n-4] == 'e' && e.buf[n-3] == '-' && e.buf[n-2] == '0' {
			e.buf = append(e.buf[:n-2], e.buf[n-1])
		}
		return nil
	}
	e.buf = strconv.AppendFloat(e.buf, f, 'f', -1, 64)
	return nil
}

func (e *encoder) number(n json.Number) error {
	if n == "" {
		n = "0" // as encoding/json does
	}
	if end, _ := scan.Number([]byte(n), 0); end != len(n) {
		return fmt.Errorf("%q is not a number", string(n))
	}
	e.buf = append(e.buf, n...)
	return nil
}

// other encodes the types that a hand-built tree may hold (int32, []string, …).
func (e *encoder) other(value any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	e.buf = append(e.buf, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
	return nil
}

// AppendString appends s to b as JSON, escaped as encoding/json does without HTML
// escapes: invalid UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte { return appendText(b, s) }

// AppendText is AppendString for bytes, which it does not keep.
func AppendText(b, s []byte) []byte { return appendText(b, s) }

func appendText[T string | []byte](b []byte, s T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0 // s[:done] is written
	for i := 0; i < len(s); {
		if i = plainEnd(s, i); i == len(s) {
			break
		}
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[done:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, '\\', 'b')
			case '\f':
				b = append(b, '\\', 'f')
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
			}
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)])) // so few bytes are not copied to the heap
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[done:i]...), `\ufffd`...)
			done = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[done:i]...), `\u202`...)
			b = append(b, hex[r&0xF])
			done = i + size
		}
		i += size
	}
	return append(append(b, s[done:]...), '"')
}

// plainEnd moves over text that is written as it is, eight bytes at a time: up to the first that is not, or up to the
// last seven bytes.
func plainEnd[T string | []byte](s T, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		v := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// The lowest mark is right: see kube/scan specialBytes.
		if marks := (v | (v - ones*' ') | ((v ^ ones*'"') - ones) | ((v ^ ones*'\\') - ones)) & highs; marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	return i
}
