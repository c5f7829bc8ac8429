package gokind

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// maxDepth bounds how deep messages may nest: the generated decoders recurse, and
// a schema inside a schema inside a schema … of 3 MiB would outgrow the stack.
// 1000 is a tenth of what the JSON decoder allows, and far above any real object.
const maxDepth = 1000

// maxFields bounds the strings and messages of a body: an empty message is two
// bytes, and half a KiB once it is a container of a pod. Real bodies have 20 bytes
// and more for each.
const maxFields = 2 * kinds.MaxParts

// DecodeProtobuf reads the k8s\0 envelope of a request, and encodes the object in
// it as JSON.
func (t *goType[T, P]) DecodeProtobuf(body []byte) ([]byte, error) {
	unknown, err := openEnvelope(body)
	if err != nil {
		return nil, wire.BadRequest(
			"the object provided is unrecognized (must be of type %s): %v (%s)",
			t.gvk.Kind,
			err,
			kinds.Excerpt(body),
		)
	}
	got := runtimeschema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)
	if err := t.claim(got); err != nil {
		return nil, err
	}
	obj := P(new(T))
	if err := obj.Unmarshal(unknown.Raw); err != nil {
		return nil, t.cannotBe(t.gvk, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(t.gvk)
	out, err := json.Marshal(obj)
	if err != nil {
		return nil, t.cannotBe(t.gvk, err)
	}
	return out, nil
}

// DecodeScale reads the k8s\0 envelope of a request to a subresource scale, of which
// the body is a Scale whatever it scales, and encodes it as JSON.
func DecodeScale(body []byte) ([]byte, error) {
	t := newType[autoscalingv1.Scale](autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return t.DecodeProtobuf(body)
}

// DecodeDeleteOptions reads the k8s\0 envelope of a DELETE request, whatever
// group and version it names for the options. An error is a *wire.StatusError (400).
func DecodeDeleteOptions(body []byte) (*metav1.DeleteOptions, error) {
	unknown, err := openEnvelope(body)
	if err != nil {
		return nil, wire.BadRequest(
			"the object provided is unrecognized (must be of type DeleteOptions): %v (%s)",
			err,
			kinds.Excerpt(body),
		)
	}
	if unknown.Kind != "" && unknown.Kind != "DeleteOptions" {
		return nil, wire.BadRequest("decoded object cannot be converted to DeleteOptions")
	}
	options := &metav1.DeleteOptions{}
	if err := options.Unmarshal(unknown.Raw); err != nil {
		return nil, wire.BadRequest(
			"the object provided is unrecognized (must be of type DeleteOptions): %v (%s)",
			err,
			kinds.Excerpt(body),
		)
	}
	return options, nil
}

func openEnvelope(body []byte) (*runtime.Unknown, error) {
	content, found := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !found {
		return nil, errors.New("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
	}
	unknown := &runtime.Unknown{}
	if err := unknown.Unmarshal(content); err != nil {
		return nil, fmt.Errorf("read the protobuf envelope: %w", err)
	}
	if unknown.ContentEncoding != "" {
		return nil, fmt.Errorf("unsupported content encoding %q in the protobuf envelope", unknown.ContentEncoding)
	}
	m := measure{}
	switch m.look(0, unknown.Raw); {
	case m.tooDeep:
		return nil, fmt.Errorf("messages nest more than %d deep", maxDepth)
	case m.fields > maxFields:
		return nil, fmt.Errorf("the message has more than %d strings and messages inside", maxFields)
	}
	return unknown, nil
}

// measure is the size of a body, read as a protobuf message whose every bytes
// field may be a message.
type measure struct {
	tooDeep bool
	fields  int // length-delimited ones
}

// look adds a message. Like the generated decoders it goes into the fields that
// come before something malformed. It takes time linear in data: what is a header
// on one level is not checked again below.
func (m *measure) look(depth int, data []byte) {
	for child := range delimited(data) {
		if m.fields++; depth == maxDepth {
			m.tooDeep = true
		}
		if m.tooDeep || m.fields > maxFields {
			return
		}
		m.look(depth+1, child)
	}
}

// delimited yields the length-delimited fields of a protobuf message, up to where it
// is malformed.
func delimited(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			tag, n := varint(data)
			if n == 0 || tag>>3 == 0 {
				return
			}
			data = data[n:]
			switch tag & 7 {
			case 0: // a varint
				if _, n = varint(data); n == 0 {
					return
				}
			case 1: // 64 bits
				n = 8
			case 2: // bytes, a string or a message
				size, header := varint(data)
				if header == 0 || size > uint64(len(data)-header) {
					return
				}
				n = header + int(size)
				if !yield(data[header:n]) {
					return
				}
			case 5: // 32 bits
				n = 4
			default: // the begin or end of a group: what is in it counts as our own
				n = 0
			}
			if n > len(data) {
				return
			}
			data = data[n:]
		}
	}
}

// varint reads a number as the generated decoders do, which take ten bytes of any
// value, and returns how many bytes it has; 0 when it does not end.
func varint(data []byte) (value uint64, n int) {
	for n < len(data) && n < binary.MaxVarintLen64 {
		b := data[n]
		value |= uint64(b&0x7f) << (7 * n)
		n++
		if b < 0x80 {
			return value, n
		}
	}
	return 0, 0
}
