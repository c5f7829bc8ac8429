package gokind

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Form is one version of a kind as a Go struct of k8s.io/api has it, for objects that are kept in a version
// that is not served.
type Form struct {
	GVK kinds.GroupVersionKind
	// Protobuf and FromProtobuf are those of [kinds.Resource].
	Protobuf     func(object []byte) ([]byte, error)
	FromProtobuf func(message []byte) (map[string]any, error)
	// FromJSON makes of JSON the tree that the struct is encoded as. Errors: *wire.StatusError.
	FromJSON func(object []byte) (map[string]any, error)
}

// FormOf returns the form of a version of a kind.
func FormOf[T any, P Object[T]](gvk kinds.GroupVersionKind) Form {
	t := newType[T, P](gvk)
	fromJSON := func(object []byte) (map[string]any, error) {
		u, _, err := t.Decode(object, kinds.FieldsIgnore)
		if err != nil {
			return nil, err
		}
		return u.Object, nil
	}
	return Form{GVK: gvk, Protobuf: t.encodeProtobuf, FromProtobuf: t.decodeMessage, FromJSON: fromJSON}
}

// decodeMessage is kinds.Resource.FromProtobuf.
func (t *goType[T, P]) decodeMessage(message []byte) (tree.Object, error) {
	obj := P(new(T))
	if err := obj.Unmarshal(message); err != nil {
		return nil, fmt.Errorf("read the protobuf message of a %s: %w", t.gvk.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(t.gvk)
	if s, err := t.shape(); err == nil {
		if content, ok := s.Tree(obj); ok {
			return content, nil
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("make a tree of the %s: %w", t.gvk.Kind, err)
	}
	return content, nil
}

// appendMessage is kinds.Resource.AppendProtobuf, of a kind without defaults. The empty status that Default fills in is
// in every message that has none.
func (t *goType[T, P]) appendMessage(b, message []byte) ([]byte, bool) {
	s, err := t.shape()
	if err != nil || t.hasStatus && !s.Always("status") {
		return b, false
	}
	return s.AppendMessage(b, t.apiVersion, t.gvk.Kind, message)
}
