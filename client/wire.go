package client

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gapless-io/gapless/kube"
)

// field is one field of a message.
type field struct {
	number int32  // 0 if the value is not of the wire type bytes
	value  []byte // of that wire type only
	at     int    // where value begins
	size   int    // with its tag
}

// scan calls each for every field of a message, which begins at an offset of the input.
// Errors: *kube.DecodeError, and those of each.
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

// first reads the first field of a message, which begins at an offset of the input.
func first(message []byte, at int) (field, error) {
	number, wire, n := protowire.ConsumeTag(message)
	if n < 0 {
		return field{}, broken(at, n)
	}
	switch wire {
	case protowire.BytesType:
		value, m := protowire.ConsumeBytes(message[n:])
		if m < 0 {
			return field{}, broken(at+n, m)
		}
		return field{number: int32(number), value: value, at: at + n + m - len(value), size: n + m}, nil
	case protowire.VarintType, protowire.Fixed32Type, protowire.Fixed64Type:
		m := protowire.ConsumeFieldValue(number, wire, message[n:])
		if m < 0 {
			return field{}, broken(at+n, m)
		}
		return field{size: n + m}, nil
	case protowire.StartGroupType, protowire.EndGroupType:
	}
	return field{}, &kube.DecodeError{Offset: at, Why: unknownWireType(wire)}
}

// broken is the error of protowire's code n.
func broken(at, n int) error {
	return &kube.DecodeError{Offset: at, Why: protowire.ParseError(n).Error()}
}

// unknownWireType is why a field is refused: Kubernetes has no groups, and no other wire
// type exists.
func unknownWireType(wire protowire.Type) string { return fmt.Sprintf("wire type %d", wire) }
