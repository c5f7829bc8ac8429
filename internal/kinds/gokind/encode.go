package gokind

import (
	"fmt"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// encodeProtobuf is kinds.Resource.Protobuf: the message is what the generated code of
// the struct makes, so that clients decode with theirs what they would read from the JSON.
func (t *goType[T, P]) encodeProtobuf(object []byte) ([]byte, error) {
	obj := P(new(T))
	if !t.fill(obj, object) {
		// Raw JSON inside of the object stays as it is only if it is never decoded.
		obj = P(new(T))
		if err := kjson.UnmarshalCaseSensitivePreserveInts(object, obj); err != nil {
			return nil, fmt.Errorf("read the stored %s: %w", t.gvk.Kind, err)
		}
	}
	message, err := obj.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the %s as protobuf: %w", t.gvk.Kind, err)
	}
	return message, nil
}

// fill sets the fields of an empty struct from JSON, the fast way. It returns false when it
// cannot; the struct is partly filled then.
func (t *goType[T, P]) fill(obj P, object []byte) bool {
	s, err := t.shape()
	if err != nil {
		return false
	}
	content, err := jsontree.DecodePlain(object)
	return err == nil && s.Fill(obj, content)
}

// scales and metadata are types of answers that are no resource's own.
//
//nolint:gochecknoglobals // immutable tables, made at the first use
var (
	scales = sync.OnceValue(func() *goType[autoscalingv1.Scale, *autoscalingv1.Scale] {
		return newType[autoscalingv1.Scale](autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	})
	metadata = sync.OnceValue(func() *goType[metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata] {
		return newType[metav1.PartialObjectMetadata](metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	})
)

// EncodeScale encodes a Scale, given as JSON, as a protobuf message without an envelope.
func EncodeScale(object []byte) ([]byte, error) { return scales().encodeProtobuf(object) }

// EncodeMetadata encodes a PartialObjectMetadata, given as JSON, as a protobuf message
// without an envelope. It has the same fields in every version of meta.k8s.io.
func EncodeMetadata(object []byte) ([]byte, error) { return metadata().encodeProtobuf(object) }
