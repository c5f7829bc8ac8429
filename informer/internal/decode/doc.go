// Package decode makes Go values of JSON objects in one pass, several times as fast as
// the stock decoders and with less memory kept.
//
// It has two nouns. A [Decoder] is compiled for one type and does what encoding/json
// does, except that member names must match exactly. [Strings] is a bounded memory of
// strings that many objects have, so that each is kept once.
//
// It knows what is plain: what API servers send into the types that Kubernetes has.
// For whatever is unusual, in a type or in the input, the caller has a slow decoder
// that is always right; the fast one never guesses.
//
// # Shared values
//
// Most of an object's JSON stands byte by byte in others too: the tolerations of all
// pods, the labels, owners and managed fields of a ReplicaSet's, and in an update nearly
// all of the version before it. A Decoder that shares ([Decoder.Share]) remembers objects
// and arrays that came twice at one place (a field of a struct, the elements of a list), by
// their text. Where it comes to a text that is remembered, which comparing it finds out,
// it takes the value that was made of it and goes on behind it. Texts that are equal have
// been checked before, so this skips no check. Structs are copied; pointers, slices and
// maps are the same ones in all objects that have them, so none may be modified. Slices
// have no room to spare, so that append copies.
//
// At most 4 MiB of texts are remembered, and nothing for longer than some 128 MiB of
// input in which it did not come again. Places whose values hardly ever come again are
// left out for a while.
package decode

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Decoder decodes objects of one type. It is safe for concurrent use.
type Decoder[T any] struct {
	elem    reflect.Type
	decode  decoder
	slow    func([]byte) (T, error)
	strings *Strings
	strip   bool
	sites   int
	memory  *memory // nil: nothing is shared
}

// New compiles a decoder into T, a pointer to a struct. slow is asked for all that
// the fast way does not take, and for every error.
func New[T any](slow func([]byte) (T, error)) *Decoder[T] {
	d := &Decoder[T]{slow: slow, strings: NewStrings()}
	t := reflect.TypeFor[T]()
	switch {
	case t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct:
	case t == reflect.TypeFor[*unstructured.Unstructured]():
		d.elem, d.decode, d.sites = t.Elem(), newLimb().dynamic, maxSites
	default:
		c := &compiler{made: map[reflect.Type]*decoder{}}
		d.elem = t.Elem()
		d.decode = c.of(d.elem)
		d.sites = c.sites
	}
	return d
}

// StripManagedFields makes the decoder leave metadata.managedFields out. It is for
// before the first Decode.
func (d *Decoder[T]) StripManagedFields() { d.strip = true }

// Share makes Decode share values between objects; see the package comment. Decode is
// faster then and what it makes smaller, but whoever modifies an object below its own
// struct modifies others. It is for before the first Decode.
func (d *Decoder[T]) Share() { d.memory = newMemory(d.sites) }

// Decode makes an object of its JSON. The object keeps nothing of raw.
func (d *Decoder[T]) Decode(raw []byte) (T, error) { return d.with(d.memory, raw) }

// DecodeAlone is Decode of an object that shares nothing but strings, and may be modified.
func (d *Decoder[T]) DecodeAlone(raw []byte) (T, error) { return d.with(nil, raw) }

func (d *Decoder[T]) with(memory *memory, raw []byte) (T, error) {
	if d.decode != nil {
		r := reader{data: raw, strings: d.strings, strip: d.strip}
		if memory != nil {
			memory.begin(&r)
		}
		into := reflect.New(d.elem)
		if r.peek() == '{' && d.decode(&r, into.Elem()) == nil && r.peek() == 0 && r.pos == len(raw) {
			object, _ := reflect.TypeAssert[T](into)
			return object, nil
		}
	}
	object, err := d.slow(raw)
	if err == nil && d.strip {
		if o, is := any(object).(interface {
			SetManagedFields(fields []metav1.ManagedFieldsEntry)
		}); is {
			o.SetManagedFields(nil)
		}
	}
	return object, err
}
