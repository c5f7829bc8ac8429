// Package protobuf decodes objects in Kubernetes' protobuf encoding, in a fifth of the
// time that their JSON takes.
//
// A [Decoder] decodes objects of one type that has an Unmarshal method, as the built-in kinds
// do. It also reads the envelope, and can drop managed fields.
//
// A Decoder with [Decoder.Share] remembers the bytes and the value of messages, lists and maps
// that occurred twice in the same field, and uses that value when the same bytes come again:
// see package decode, which does so for JSON, with the same bounds. For that, the types of
// Kubernetes' API are read by what is compiled of the tags of their fields, as their Unmarshal
// is generated of them. Other types, unusual input and all errors are left to Unmarshal.
package protobuf

import (
	"reflect"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/kube"
)

// message has the methods that the generators of Kubernetes write for a type.
type message interface {
	Reset()
	Unmarshal(raw []byte) error
	GetObjectKind() schema.ObjectKind
}

// Decoder decodes objects of one type. It is safe for concurrent use.
type Decoder[T any] struct {
	elem    reflect.Type
	strip   bool
	decode  decoder // nil: nothing is shared, or the type decodes itself
	strings *decode.Strings
	memory  *memory
	turn    atomic.Uint32                   // counts objects
	kind    atomic.Pointer[metav1.TypeMeta] // of the last object that said one
	buffers sync.Pool                       // of *[]byte
}

// New returns a decoder for T, or nil if Fits is false for T.
func New[T any]() *Decoder[T] {
	t := reflect.TypeFor[T]()
	if !Fits(t) {
		return nil
	}
	return &Decoder[T]{elem: t.Elem(), buffers: sync.Pool{New: func() any { return new([]byte) }}}
}

// Fits reports whether a type has Kubernetes' protobuf encoding: it is a pointer to a
// struct with embedded TypeMeta and ObjectMeta, the second as field 1, and with its own
// Unmarshal method.
func Fits(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[message]()) {
		return false
	}
	// TypeMeta and ObjectMeta both have an Unmarshal method. A struct that embeds one of
	// them inherits it, and it decodes only that part. A struct that embeds both inherits
	// neither, so its Unmarshal is its own.
	kind, hasKind := t.Elem().FieldByName("TypeMeta")
	meta, hasMeta := t.Elem().FieldByName("ObjectMeta")
	return hasKind && kind.Anonymous && len(kind.Index) == 1 && kind.Type == reflect.TypeFor[metav1.TypeMeta]() &&
		hasMeta && meta.Anonymous && len(meta.Index) == 1 && meta.Type == reflect.TypeFor[metav1.ObjectMeta]() &&
		meta.Tag.Get("protobuf") == "bytes,1,opt,name=metadata"
}

// StripManagedFields makes the decoder drop metadata.managedFields. Call it before the
// first Decode.
func (d *Decoder[T]) StripManagedFields() { d.strip = true }

// Share makes Decode share values between objects; see the package comment. Modifying what an
// object refers to then modifies others. Call it before the first Decode.
func (d *Decoder[T]) Share() {
	c := &compiler{made: map[reflect.Type]decoder{}}
	d.decode, d.memory, d.strings = c.object(d.elem), newMemory(), decode.NewStrings()
}

// Decode decodes an object of a list or a watch. The object does not refer to the input.
// Errors: *kube.DecodeError.
func (d *Decoder[T]) Decode(object []byte) (T, error) { return d.with(d.decode, object) }

// DecodeAlone is like Decode, but the object shares nothing and may be modified. It is the
// type's own Unmarshal that decodes it, which is faster where nothing is looked up.
func (d *Decoder[T]) DecodeAlone(object []byte) (T, error) { return d.with(nil, object) }

func (d *Decoder[T]) with(decode decoder, object []byte) (T, error) {
	var none T
	e, err := client.OpenEnvelope(object)
	if err != nil {
		return none, err
	}
	made := reflect.New(d.elem)
	if decode == nil || decode(d.reader(len(object)), e.Raw, made.Elem()) != nil {
		if made, err = d.slow(e); err != nil {
			return none, err
		}
	}
	into, _ := reflect.TypeAssert[message](made)
	if kind, is := into.GetObjectKind().(*metav1.TypeMeta); is && len(e.Kind) > 0 {
		*kind = d.typeMeta(e)
	}
	result, _ := reflect.TypeAssert[T](made)
	return result, nil
}

// reader returns a reader of an object of size bytes.
func (d *Decoder[T]) reader(size int) *reader {
	r := &reader{strings: d.strings, strip: d.strip, counts: d.turn.Add(1)%sampled == 0}
	d.memory.begin(r, size)
	return r
}

// slow decodes by the type's own Unmarshal.
func (d *Decoder[T]) slow(e client.Envelope) (made reflect.Value, err error) {
	raw := e.Raw
	if d.strip {
		buffer, is := d.buffers.Get().(*[]byte)
		if !is {
			panic("protobuf: no buffer")
		}
		defer d.buffers.Put(buffer)
		if raw, err = e.AppendStripped((*buffer)[:0]); err != nil {
			return made, err
		}
		*buffer = raw
	}
	made = reflect.New(d.elem)
	into, is := reflect.TypeAssert[message](made)
	if !is {
		panic("protobuf: " + d.elem.String() + " is no message")
	}
	if err := into.Unmarshal(raw); err != nil {
		return made, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	return made, nil
}

// typeMeta returns the type in the envelope, in strings that objects share.
func (d *Decoder[T]) typeMeta(e client.Envelope) metav1.TypeMeta {
	last := d.kind.Load()
	if last == nil || last.Kind != string(e.Kind) || last.APIVersion != string(e.APIVersion) {
		last = &metav1.TypeMeta{Kind: string(e.Kind), APIVersion: string(e.APIVersion)}
		d.kind.Store(last)
	}
	return *last
}
