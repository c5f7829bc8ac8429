package client

import (
	"encoding/binary"
	"fmt"

	"github.com/gapless-io/gapless/kube"
)

// The wire types of protobuf (protobuf.dev/programming-guides/encoding).
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
	// 3 and 4 begin and end a group. Kubernetes has none.
)

// tag is what begins a field.
type tag uint64

func tagOf(number uint64, wire tag) tag { return tag(number<<3) | wire }

func (t tag) wire() tag { return t & 7 }

// number is 0 for a tag that no field can have.
func (t tag) number() int {
	if t>>3 > 1<<29-1 {
		return 0
	}
	return int(t >> 3)
}

// after is how long what follows a tag is, if the tag says it. The others begin with
// a number: a varint is it, bytes have as many bytes. Errors: why there is no such
// field.
func (t tag) after() (size int, why string) {
	if t.number() == 0 {
		return 0, "no field number"
	}
	switch t.wire() {
	case wireVarint, wireBytes:
		return 0, ""
	case wireFixed32:
		return 4, ""
	case wireFixed64:
		return 8, ""
	}
	return 0, fmt.Sprintf("wire type %d", t.wire())
}

// field is one field of a message.
type field struct {
	tag   tag
	value []byte // of wireBytes only
	at    int    // where value begins
	size  int    // with its tag
}

// bytes is the number of a field that has bytes for a value, else 0.
func (f field) bytes() int {
	if f.tag.wire() != wireBytes {
		return 0
	}
	return f.tag.number()
}

// first reads the field that a message begins with, at an offset of the input.
func first(message []byte, at int) (field, error) {
	wrong := func(pos int, why string) (field, error) {
		return field{}, &kube.DecodeError{Offset: at + pos, Why: why}
	}
	head, n := binary.Uvarint(message)
	if n <= 0 {
		return wrong(0, "a number that does not end")
	}
	f := field{tag: tag(head)}
	size, why := f.tag.after()
	if why != "" {
		return wrong(0, why)
	}
	length := uint64(size) //nolint:gosec // not negative
	if wire := f.tag.wire(); wire == wireVarint || wire == wireBytes {
		value, m := binary.Uvarint(message[n:])
		if m <= 0 {
			return wrong(n, "a number that does not end")
		}
		n += m
		if wire == wireBytes {
			length = value
		}
	}
	if length > uint64(len(message)-n) { //nolint:gosec // not negative
		return wrong(n, "a field is longer than what it is in")
	}
	f.size = n + int(length) //nolint:gosec // at most len(message)
	if f.tag.wire() == wireBytes {
		f.value, f.at = message[n:f.size], at+n
	}
	return f, nil
}

// scan calls each for every field of a message, which begins at an offset.
func scan(message []byte, at int, each func(field) error) error {
	for pos := 0; pos < len(message); {
		f, err := first(message[pos:], at+pos)
		if err != nil {
			return err
		}
		if err := each(f); err != nil {
			return err
		}
		pos += f.size
	}
	return nil
}
