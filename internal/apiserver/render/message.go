package render

import (
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/protobuf"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Status returns a Status in a form.
func Status(into Form, status metav1.Status) ([]byte, error) {
	if into.format != formatProtobuf {
		return json.Marshal(status)
	}
	message, err := status.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the Status as protobuf: %w", err)
	}
	return protobuf.Object(statusType(), message), nil
}

func statusType() metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: "Status"} }

// typeMeta is what the envelopes of objects say.
func (r *Renderer) typeMeta() metav1.TypeMeta {
	switch {
	case r.shape == shapePartial:
		return metav1.TypeMeta{APIVersion: r.apiVersion(), Kind: "PartialObjectMetadata"}
	case r.scale:
		return metav1.TypeMeta{APIVersion: autoscalingv1.SchemeGroupVersion.String(), Kind: "Scale"}
	}
	return metav1.TypeMeta{APIVersion: r.resource.APIVersion(), Kind: r.resource.Kind}
}

// envelope returns an object in protobuf.
func (r *Renderer) envelope(o *wire.Object) ([]byte, error) {
	message, err := r.message(o)
	if err != nil {
		return nil, err
	}
	return protobuf.Object(r.typeMeta(), message), nil
}

// message returns the message of an object without its envelope: that of an event, if it is
// kept.
func (r *Renderer) message(o *wire.Object) ([]byte, error) {
	if r.shared != nil && !r.scale {
		if known := r.shared.messages.Find(o, r.messageForm()); known != nil {
			return known, nil
		}
	}
	return r.encode(o)
}

// eventMessage returns the message of the object of an event, which is made once for all
// watches.
func (r *Renderer) eventMessage(o *wire.Object) ([]byte, error) {
	if r.shared == nil {
		return r.encode(o)
	}
	return r.shared.messages.Event(o, r.messageForm(), func() ([]byte, error) { return r.encode(o) })
}

// State is Event for an object of the state that a watch begins with.
func (r *Renderer) State(o *wire.Object) ([]byte, error) {
	switch {
	case r.format != formatProtobuf:
		return r.Event(o)
	case r.shared == nil || r.resource.Conversion != nil || r.resource.Version != r.resource.StorageVersion:
		return r.encode(o) // each watch makes an object of its own, which no other has
	}
	return r.shared.messages.State(o, r.messageForm(), func() ([]byte, error) { return r.encode(o) })
}

// Bookmark returns the object of a bookmark in the form.
func (r *Renderer) Bookmark(o *wire.Object) ([]byte, error) {
	if r.format == formatProtobuf {
		return r.encode(o)
	}
	return r.Event(o)
}

func (r *Renderer) messageForm() protobuf.Form {
	switch {
	case r.shape == shapePartial && r.drops:
		return protobuf.MetadataUnmanaged
	case r.shape == shapePartial:
		return protobuf.Metadata
	case r.drops:
		return protobuf.Unmanaged
	}
	return protobuf.Whole
}

// encode makes the message of an object.
func (r *Renderer) encode(o *wire.Object) (message []byte, err error) {
	o = r.seen(o)
	switch {
	case r.shape == shapePartial:
		message, err = gokind.EncodeMetadata(fmt.Appendf(nil, `{"metadata":%s}`, o.Metadata()))
	case r.scale:
		message, err = gokind.EncodeScale(o.JSON())
	default:
		message, err = r.resource.Protobuf(o.JSON())
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", r.resource.GR(), o.Key(), err)
	}
	return message, nil
}

// Streamed is the media type of a watch in a form.
func Streamed(into Form) string {
	if into.format == formatProtobuf {
		return media.Protobuf + streamed
	}
	return media.JSON
}

// Binary reports whether events are not text.
func (r *Renderer) Binary() bool { return r.format == formatProtobuf }

// Frame returns what precedes and what follows the object of an event, which Event, State or
// Bookmark made and which has size bytes. The result is valid until the next call.
func (r *Renderer) Frame(t kube.EventType, size int) (head, tail []byte) {
	if r.format == formatProtobuf {
		if r.tail == nil {
			r.tail, r.beginning = protobuf.Tail(), protobuf.Beginning(r.typeMeta())
		}
		if r.headType != t || r.headSize != size {
			r.headType, r.headSize = t, size
			r.head = protobuf.FrameOf(r.head[:0], t.String(), r.beginning, size)
		}
		return r.head, r.tail
	}
	if r.headType != t {
		r.headType, r.head, r.tail = t, []byte(wire.FrameHead(t)), []byte(wire.FrameTail)
	}
	return r.head, r.tail
}

// ErrorFrame returns the last frame of a watch that ends with an error.
func (r *Renderer) ErrorFrame(status metav1.Status) []byte {
	if r.format != formatProtobuf {
		return wire.ErrorFrame(status)
	}
	message, err := status.Marshal()
	if err != nil {
		panic("render: a Status that cannot be encoded: " + err.Error()) // it holds only strings and numbers
	}
	frame := protobuf.Frame(nil, kube.Error.String(), statusType(), len(message))
	return append(append(frame, message...), protobuf.Tail()...)
}
