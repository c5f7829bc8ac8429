// Package protobuf writes answers in Kubernetes' protobuf encoding around the messages of
// objects, and keeps messages for the next reader.
//
// A message is the bytes of one object, without its kind; the kinds
// themselves make it. An envelope ([Object], [List]) is an answer: "k8s", a zero byte and a
// runtime.Unknown with the kind. A frame ([Frame]) is an event of a watch: a length and a
// metav1.WatchEvent with an envelope inside. A [Cache] keeps messages by their object.
package protobuf

import (
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Magic begins every envelope: apimachinery runtime/serializer/protobuf.
const Magic = "k8s\x00"

// The tags of length-delimited fields by their number.
const (
	field1 = 1<<3 | 2
	field2 = 2<<3 | 2
	field3 = 3<<3 | 2
	field4 = 4<<3 | 2
)

// tail are the last fields of a runtime.Unknown, which are written although they are empty:
// contentEncoding and contentType.
const tail = string(rune(field3)) + "\x00" + string(rune(field4)) + "\x00"

// Tail ends an envelope, and with it a frame.
func Tail() []byte { return []byte(tail) }

// Object returns a message in its envelope.
func Object(kind metav1.TypeMeta, message []byte) []byte {
	to := make([]byte, 0, envelopeSize(kind, len(message)))
	to = appendEnvelope(to, kind, len(message))
	return append(append(to, message...), tail...)
}

// List returns what precedes the items of a list in its envelope; metadata is the message of
// its ListMeta, and items the bytes of all items together, as AppendItem makes them. Tail
// follows them.
func List(kind metav1.TypeMeta, metadata []byte, items int) []byte {
	size := fieldSize(len(metadata)) + items
	to := make([]byte, 0, envelopeSize(kind, fieldSize(len(metadata))))
	to = appendEnvelope(to, kind, size)
	return append(appendField(to, field1, len(metadata)), metadata...)
}

// AppendItem appends an item of a list.
func AppendItem(to, message []byte) []byte {
	return append(appendField(to, field2, len(message)), message...)
}

// lengthBytes is the size of the length before an event: apimachinery util/framer.
const lengthBytes = 4

// Frame appends what precedes the message of an event, which has size bytes; Tail follows
// it. Messages of a WebSocket have a length already: they are what follows the first four
// bytes.
func Frame(to []byte, event string, kind metav1.TypeMeta, size int) []byte {
	return FrameOf(to, event, Beginning(kind), size)
}

// FrameOf is Frame with the beginning of the envelope, which all objects of a kind share.
func FrameOf(to []byte, event string, beginning []byte, size int) []byte {
	envelope := len(beginning) + fieldSize(size) + len(tail)
	raw := fieldSize(envelope) // runtime.RawExtension
	to = binary.BigEndian.AppendUint32(to, uint32(fieldSize(len(event))+fieldSize(raw)))
	to = append(appendField(to, field1, len(event)), event...)
	to = appendField(to, field2, raw)
	to = appendField(to, field1, envelope)
	return appendField(append(to, beginning...), field2, size)
}

// Beginning returns what begins each envelope with a message of a kind.
func Beginning(kind metav1.TypeMeta) []byte {
	to := append([]byte(nil), Magic...)
	to = appendField(to, field1, typeSize(kind))
	to = append(appendField(to, field1, len(kind.APIVersion)), kind.APIVersion...)
	return append(appendField(to, field2, len(kind.Kind)), kind.Kind...)
}

// Unframed returns the beginning of a frame without its length.
func Unframed(head []byte) []byte { return head[lengthBytes:] }

// appendEnvelope appends what precedes a message of size bytes in its envelope.
func appendEnvelope(to []byte, kind metav1.TypeMeta, size int) []byte {
	return appendField(append(to, Beginning(kind)...), field2, size)
}

// envelopeSize is the size of an envelope with a message of size bytes.
func envelopeSize(kind metav1.TypeMeta, size int) int {
	return len(Magic) + fieldSize(typeSize(kind)) + fieldSize(size) + len(tail)
}

// typeSize is the size of a runtime.TypeMeta.
func typeSize(kind metav1.TypeMeta) int {
	return fieldSize(len(kind.APIVersion)) + fieldSize(len(kind.Kind))
}

// fieldSize is the size of a length-delimited field of size bytes.
func fieldSize(size int) int {
	n := 2 // the tag, and the last byte of the length
	for length := size; length >= 0x80; length >>= 7 {
		n++
	}
	return n + size
}

func appendField(to []byte, tag byte, size int) []byte {
	return binary.AppendUvarint(append(to, tag), uint64(size))
}
