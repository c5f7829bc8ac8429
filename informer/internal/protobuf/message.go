package protobuf

import (
	"errors"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gapless-io/gapless/informer/internal/decode"
)

const (
	// maxFields bounds the numbers of fields; those of Kubernetes are below 50.
	maxFields = 128
	// maxDepth is how deep messages are followed; those of Kubernetes are below 20.
	maxDepth = 100
)

// errFallback says that a message is not for this decoder: wrong, or unusual.
var errFallback = errors.New("not plain")

// reader reads one object. All its errors leave the object to the type's own Unmarshal.
type reader struct {
	strings *decode.Strings
	strip   bool
	depth   int

	memory *memory
	known  *generations
	counts bool // this object counts what sites are worth
}

// decoder reads the bytes of one value, or of all values of a repeated field with their
// tags, into v, which is settable and zero.
type decoder func(r *reader, raw []byte, v reflect.Value) error

// structure reads messages into structs of one type.
type structure struct {
	fields []*field // by number; nil: the type has no such field
}

// field is one field of a message.
type field struct {
	index    int
	wire     protowire.Type
	number   func(v reflect.Value, n uint64) // of a varint that is not repeated
	bytes    decoder                         // of all others
	repeated bool
	merges   bool // a second value is merged with the first; of other fields the last counts
	managed  bool // it is metadata.managedFields
}

// decode reads a message as its generated Unmarshal does, to which it leaves what that
// merges (a message or list that comes twice) and what no server sends. Unknown fields, of a
// newer server, are skipped.
func (m *structure) decode(r *reader, raw []byte, v reflect.Value) error {
	if r.depth++; r.depth > maxDepth {
		return errFallback
	}
	var seen [maxFields / 64]uint64
	for pos := 0; pos < len(raw); {
		begin := pos
		tag, next := uvarint(raw, pos)
		number, wire := tag>>3, protowire.Type(tag&7)
		if next < 0 || number == 0 || number > uint64(protowire.MaxValidNumber) || wire == protowire.StartGroupType {
			return errFallback
		}
		pos = next
		var f *field
		if number < uint64(len(m.fields)) {
			f = m.fields[number]
		}
		if f == nil {
			if pos = skip(raw, pos, wire); pos < 0 {
				return errFallback
			}
			continue
		}
		bit := uint64(1) << (number % 64)
		if f.wire != wire || f.merges && seen[number/64]&bit != 0 {
			return errFallback
		}
		seen[number/64] |= bit
		var value []byte
		switch {
		case f.number != nil:
			var n uint64
			if n, pos = uvarint(raw, pos); pos < 0 {
				return errFallback
			}
			f.number(v.Field(f.index), n)
			continue
		case f.repeated:
			if pos = valuesEnd(raw, begin, pos); pos < 0 {
				return errFallback
			}
			value = raw[begin:pos]
		default:
			if value, pos = content(raw, pos); pos < 0 {
				return errFallback
			}
		}
		if f.managed && r.strip {
			continue
		}
		if err := f.bytes(r, value, v.Field(f.index)); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

// uvarint returns the number at pos and where it ends, -1 if it is broken.
func uvarint(raw []byte, pos int) (n uint64, end int) {
	if pos < len(raw) && raw[pos] < 0x80 {
		return uint64(raw[pos]), pos + 1
	}
	return longUvarint(raw, pos)
}

func longUvarint(raw []byte, pos int) (n uint64, end int) {
	n, size := protowire.ConsumeVarint(raw[pos:])
	if size < 0 {
		return 0, -1
	}
	return n, pos + size
}

// content returns the bytes at pos, behind their length, and where they end, -1 if they are
// broken.
func content(raw []byte, pos int) (value []byte, end int) {
	n, pos := uvarint(raw, pos)
	if pos < 0 || n > uint64(len(raw)-pos) {
		return nil, -1
	}
	end = pos + int(n) //nolint:gosec // a length
	return raw[pos:end], end
}

// skip returns the end of the value at pos, -1 if it is broken.
func skip(raw []byte, pos int, wire protowire.Type) (end int) {
	size := protowire.ConsumeFieldValue(1, wire, raw[pos:])
	if size < 0 {
		return -1
	}
	return pos + size
}

// valuesEnd returns where the values of a repeated field end whose first tag is at begin
// and whose first value is at pos, -1 if one is broken.
func valuesEnd(raw []byte, begin, pos int) int {
	tag := raw[begin:pos]
	for {
		if tag[0]&7 == byte(protowire.BytesType) {
			_, pos = content(raw, pos)
		} else {
			_, pos = uvarint(raw, pos)
		}
		if pos < 0 || len(raw)-pos < len(tag) || string(raw[pos:pos+len(tag)]) != string(tag) {
			return pos
		}
		pos += len(tag)
	}
}

// values calls each for the values of a repeated field, whose framing valuesEnd has checked.
func values(raw []byte, each func(value []byte) error) error {
	_, tag := uvarint(raw, 0)
	for pos := 0; pos < len(raw); {
		var value []byte
		value, pos = content(raw, pos+tag)
		if err := each(value); err != nil {
			return err
		}
	}
	return nil
}

// count returns how many values a repeated field has.
func count(raw []byte) (n int) {
	_, tag := uvarint(raw, 0)
	for pos := 0; pos < len(raw); n++ {
		_, pos = content(raw, pos+tag)
	}
	return n
}

// entry reads the two fields of an entry of a map, as they are always written.
func entry(raw []byte) (key, value []byte, err error) {
	const first, second = 1<<3 | byte(protowire.BytesType), 2<<3 | byte(protowire.BytesType)
	if len(raw) == 0 || raw[0] != first {
		return nil, nil, errFallback
	}
	key, pos := content(raw, 1)
	if pos < 0 || pos == len(raw) || raw[pos] != second {
		return nil, nil, errFallback
	}
	if value, pos = content(raw, pos+1); pos != len(raw) {
		return nil, nil, errFallback
	}
	return key, value, nil
}
