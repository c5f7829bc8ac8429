package frames

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ChangeObject changes the metadata of the object in an event in JSON; an event without an
// object stays as it is.
func ChangeObject(event []byte, change func(metadata map[string]any)) []byte {
	var e map[string]any
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	if d.Decode(&e) != nil {
		return event
	}
	object, _ := e["object"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		return event
	}
	change(metadata)
	changed, err := json.Marshal(e)
	if err != nil {
		return event
	}
	return changed
}

// Magic begins an object in protobuf: apimachinery runtime/serializer/protobuf.
const Magic = "k8s\x00"

// Event encodes a metav1.WatchEvent around the message of an object, which marshal returns.
func Event(eventType string, kind runtime.TypeMeta, marshal func() ([]byte, error)) []byte {
	message, err := marshal()
	unknown := runtime.Unknown{TypeMeta: kind, Raw: message}
	envelope, err2 := unknown.Marshal()
	e := metav1.WatchEvent{Type: eventType, Object: runtime.RawExtension{Raw: append([]byte(Magic), envelope...)}}
	body, err3 := e.Marshal()
	if err := errors.Join(err, err2, err3); err != nil {
		panic("fault: a message that cannot be encoded: " + err.Error()) // it has only texts
	}
	return body
}

// OpenEvent reads a metav1.WatchEvent and the metadata of its object, which is the first field
// of every kind.
func OpenEvent(body []byte) (runtime.Unknown, metav1.PartialObjectMetadata, error) {
	var e metav1.WatchEvent
	var unknown runtime.Unknown
	var o metav1.PartialObjectMetadata
	if err := e.Unmarshal(body); err != nil {
		return unknown, o, err
	}
	if len(e.Object.Raw) < len(Magic) || string(e.Object.Raw[:len(Magic)]) != Magic {
		return unknown, o, errors.New("the object is not in protobuf")
	}
	if err := unknown.Unmarshal(e.Object.Raw[len(Magic):]); err != nil {
		return unknown, o, err
	}
	return unknown, o, o.Unmarshal(unknown.Raw)
}

// TypeOf returns the type of an event; "" if it cannot be decoded.
func TypeOf(protobuf bool, body []byte) string {
	if protobuf {
		var e metav1.WatchEvent
		if e.Unmarshal(body) != nil {
			return ""
		}
		return e.Type
	}
	var e struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	return e.Type
}

// Pack returns a body with what separates it from others.
func Pack(protobuf bool, body []byte) []byte {
	if protobuf {
		return append(binary.BigEndian.AppendUint32(make([]byte, 0, LengthBytes+len(body)), uint32(len(body))), body...)
	}
	return append(append(make([]byte, 0, len(body)+1), body...), '\n')
}
