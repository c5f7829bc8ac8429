package persist

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
	"github.com/gapless-io/gapless/informer/internal/handle"
)

const (
	// thorough is how many objects at the start of a batch are decoded again and compared.
	// After them, one of sampled is.
	thorough = 8
	sampled  = 64
)

// ErrLossy is wrapped by the error of a type, or of an object, that JSON cannot restore.
var ErrLossy = errors.New("JSON cannot restore the objects")

// Codec encodes objects as JSON and decodes them.
type Codec[T handle.Object] struct {
	// Encode appends an object's JSON to dst.
	Encode func(dst []byte, object T) ([]byte, error)
	// Decode decodes an object. It may keep a reference to the JSON unless Lends is true.
	Decode func(object []byte) (T, error)
	// Lends means that Decode keeps no reference to the JSON and is safe for concurrent use.
	Lends bool
}

// encoder encodes the objects of one batch and checks the results.
type encoder[T handle.Object] struct {
	Codec[T]

	buffer []byte
	count  int
}

// encode returns an object's JSON, which is valid until the next call.
func (e *encoder[T]) encode(object T) ([]byte, error) {
	var err error
	if e.buffer, err = e.Encode(e.buffer[:0], object); err != nil {
		return nil, fmt.Errorf("encode %s: %w", handle.KeyOf(object), err)
	}
	e.count++
	if e.count > thorough && e.count%sampled != 0 && resembles(e.buffer, object) {
		return e.buffer, nil
	}
	return e.buffer, e.compare(object)
}

// JSON appends the JSON of v to dst, as encoding/json writes it, in three quarters of the
// time.
func JSON(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := jsonx.MarshalWrite(b, v, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
	return b.Bytes(), err
}

// resembles reports whether the metadata in the JSON has the object's name, UID and
// resource version.
func resembles[T handle.Object](raw []byte, object T) bool {
	meta, err := client.MetaOf(raw)
	return err == nil && handle.Key{Namespace: meta.Namespace, Name: meta.Name} == handle.KeyOf(object) &&
		meta.UID == object.GetUID() && meta.ResourceVersion == object.GetResourceVersion()
}

// compare decodes the encoded object and compares it with the original.
func (e *encoder[T]) compare(object T) error {
	again, err := e.Decode(bytes.Clone(e.buffer))
	var none T
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrLossy, handle.KeyOf(object), err)
	case again == none, handle.KeyOf(again) != handle.KeyOf(object), again.GetUID() != object.GetUID(),
		again.GetResourceVersion() != object.GetResourceVersion():
		return fmt.Errorf("%w: %s decodes to another object, or to another version", ErrLossy, handle.KeyOf(object))
	}
	raw, err := e.Encode(nil, again)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLossy, handle.KeyOf(object), err)
	}
	if !equal(raw, e.buffer) {
		return fmt.Errorf("%w: %s decodes to other fields", ErrLossy, handle.KeyOf(object))
	}
	return nil
}

// equal reports whether two JSON texts are equal, in any order of their members.
func equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var one, other any
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && reflect.DeepEqual(one, other)
}
