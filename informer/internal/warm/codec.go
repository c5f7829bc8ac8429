package warm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonx "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/gapless-io/gapless/client"
)

const (
	// thorough is how many objects of a batch are decoded again to see whether
	// anything is lost, before only one of sampled is.
	thorough = 8
	sampled  = 64
)

// ErrLossy is wrapped by the error of a type, or of an object, that would come back
// from its JSON as something else.
var ErrLossy = errors.New("objects would not come back as they were")

// Codec makes JSON of objects and objects of JSON.
type Codec[T Object] struct {
	// Encode appends an object's JSON to dst.
	Encode func(dst []byte, object T) ([]byte, error)
	// Decode makes an object of its JSON, which it may keep unless Lends says that it
	// does not.
	Decode func(object []byte) (T, error)
	// Lends says that Decode keeps nothing of the JSON and can be called by several at
	// once.
	Lends bool
}

// encoder encodes the objects of one batch and looks at what comes out.
type encoder[T Object] struct {
	Codec[T]

	buffer []byte
	count  int
}

// encode returns an object's JSON, until it is called again.
func (e *encoder[T]) encode(object T) ([]byte, error) {
	var err error
	if e.buffer, err = e.Encode(e.buffer[:0], object); err != nil {
		return nil, fmt.Errorf("encode %s: %w", keyOf(object), err)
	}
	e.count++
	if e.count > thorough && e.count%sampled != 0 && resembles(e.buffer, object) {
		return e.buffer, nil
	}
	return e.buffer, e.compare(object)
}

// JSON appends to dst what encoding/json makes of v, in three quarters of the time.
func JSON(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := jsonx.MarshalWrite(b, v, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
	return b.Bytes(), err
}

// resembles says that the JSON has the object's identity and version where every
// Kubernetes object has them.
func resembles[T Object](raw []byte, object T) bool {
	meta, err := client.MetaOf(raw)
	return err == nil && Key{Namespace: meta.Namespace, Name: meta.Name} == keyOf(object) &&
		meta.UID == object.GetUID() && meta.ResourceVersion == object.GetResourceVersion()
}

// compare decodes what was encoded.
func (e *encoder[T]) compare(object T) error {
	again, err := e.Decode(bytes.Clone(e.buffer))
	var none T
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrLossy, keyOf(object), err)
	case again == none, keyOf(again) != keyOf(object), again.GetUID() != object.GetUID(),
		again.GetResourceVersion() != object.GetResourceVersion():
		return fmt.Errorf("%w: %s comes back as another object, or in another version", ErrLossy, keyOf(object))
	}
	raw, err := e.Encode(nil, again)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLossy, keyOf(object), err)
	}
	if !equal(raw, e.buffer) {
		return fmt.Errorf("%w: %s comes back with other fields", ErrLossy, keyOf(object))
	}
	return nil
}

// equal says that two texts are the same JSON, whatever the order of their members.
func equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var one, other any
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && reflect.DeepEqual(one, other)
}
