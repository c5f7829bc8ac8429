package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Protobuf is the media type of answers in protobuf.
const Protobuf = "application/vnd.kubernetes.protobuf"

// writeBinary is Write for a watch in protobuf, whose frames begin with their length.
func (f *Follower) writeBinary(p []byte, now int64) error {
	const length = 4
	if len(f.partial) > 0 {
		f.partial = append(f.partial, p...)
		p = f.partial
	}
	for len(p) >= length {
		size := int(binary.BigEndian.Uint32(p)) + length
		if len(p) < size {
			break
		}
		if err := f.binaryFrame(p[length:size], now); err != nil {
			return err
		}
		p = p[size:]
	}
	f.partial = append(f.partial[:0], p...) // which may be a part of it
	return nil
}

// binaryFrame reads a metav1.WatchEvent.
func (f *Follower) binaryFrame(frame []byte, now int64) error {
	kind, rest := field(frame, 1), frame
	for _, number := range []uint64{2, 1} { // RawExtension, its raw bytes
		rest = field(rest, number)
	}
	object := field(bytes.TrimPrefix(rest, []byte("k8s\x00")), 2)
	if string(kind) == "ERROR" {
		if bytes.Contains(object, []byte("Expired")) {
			return errExpired
		}
		return fmt.Errorf("error frame: %.500q", object)
	}
	version, err := strconv.ParseUint(string(field(field(object, 1), 6)), 10, 64)
	if err != nil {
		return fmt.Errorf("a frame with a bad resourceVersion: %.500q", frame)
	}
	bookmark := string(kind) == "BOOKMARK"
	if version < f.version || version == f.version && !bookmark {
		f.verdict.Disordered++
	}
	f.version = max(f.version, version)
	if bookmark {
		return nil
	}
	f.events.Add(1)
	const name = "\x0a\x05stamp\x12" // of an entry of a map; a length and the value follow
	_, value, found := bytes.Cut(object, []byte(name))
	if !found || len(value) == 0 {
		return fmt.Errorf("a frame without a stamp: %.2000q", frame)
	}
	return f.stamped(value[1:], now)
}

// errField is what a message without a field, or a malformed one, gives.
var errField = errors.New("no such field")

// field returns a length-delimited field of a message, nil if there is none.
func field(message []byte, number uint64) []byte {
	for len(message) > 0 {
		value, tag, rest, err := next(message)
		if err != nil {
			return nil
		}
		if tag>>3 == number && tag&7 == 2 {
			return value
		}
		message = rest
	}
	return nil
}

// next reads one field.
func next(message []byte) (value []byte, tag uint64, rest []byte, err error) {
	tag, n := binary.Uvarint(message)
	if n <= 0 {
		return nil, 0, nil, errField
	}
	size, m := binary.Uvarint(message[n:])
	if m <= 0 {
		return nil, 0, nil, errField
	}
	rest = message[n+m:]
	switch tag & 7 {
	case 0:
		return nil, tag, rest, nil
	case 2:
		if size <= uint64(len(rest)) {
			return rest[:size], tag, rest[size:], nil
		}
	}
	return nil, 0, nil, errField
}
