// Package decode decodes JSON objects in one pass, several times as fast as the stock
// decoders, into values that take less memory.
//
// A [Decoder] is compiled for one type and does what client-go's decoder (sigs.k8s.io/json)
// does: what encoding/json does, except that member names must match exactly, and that an
// integer in a field of type any is an int64. [Strings] is a bounded table of strings that
// many objects contain, so that each is stored once.
//
// The fast decoder handles the JSON that API servers send and the types of Kubernetes'
// API. For unusual types and input, and for all errors, it falls back to a slow decoder
// that the caller provides.
//
// # Shared values
//
// Large parts of an object's JSON are equal to parts of others: the tolerations of all
// pods, the labels, owners and managed fields of the pods of a ReplicaSet, and most of the
// object's last version. A Decoder with [Decoder.Share] remembers the text and the value
// of objects and arrays that occurred twice in the same place (a field of a struct, the
// elements of a list). When the input continues with a remembered text, the Decoder uses
// the remembered value and skips the text, which was validated before. Structs are
// copied; pointers, slices and maps are shared by all objects, so they must not be
// modified. Slices have no spare capacity, so that append copies them.
//
// At most 4 MiB of texts are remembered. A text is forgotten after about 128 MiB of input
// in which it did not occur. Places whose values rarely repeat are skipped for a while.
package decode

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/kube/scan"
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

// New compiles a decoder for T, a pointer to a struct. slow decodes what the fast decoder
// cannot, and returns all errors.
func New[T any](slow func([]byte) (T, error)) *Decoder[T] {
	d := &Decoder[T]{slow: slow, strings: NewStrings()}
	t := reflect.TypeFor[T]()
	switch {
	case t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct:
	case t == reflect.TypeFor[*unstructured.Unstructured]():
		d.elem, d.decode, d.sites = t.Elem(), newPathTree().dynamic, maxSites
	default:
		c := &compiler{made: map[reflect.Type]*decoder{}}
		d.elem = t.Elem()
		d.decode = c.of(d.elem)
		d.sites = c.sites
	}
	return d
}

// StripManagedFields makes the decoder drop metadata.managedFields. Call it before the
// first Decode.
func (d *Decoder[T]) StripManagedFields() { d.strip = true }

// Share makes Decode share values between objects; see the package comment. Decode is then
// faster and objects are smaller, but modifying what an object refers to modifies others.
// Call it before the first Decode.
func (d *Decoder[T]) Share() { d.memory = newMemory(d.sites) }

// Decode decodes an object. The object does not refer to raw.
func (d *Decoder[T]) Decode(raw []byte) (T, error) { return d.with(d.memory, raw) }

// DecodeAlone is like Decode, but the object shares only strings and may be modified.
func (d *Decoder[T]) DecodeAlone(raw []byte) (T, error) { return d.with(nil, raw) }

func (d *Decoder[T]) with(memory *memory, raw []byte) (T, error) {
	if d.decode != nil {
		r := reader{Scanner: scan.Scanner{Data: raw, MaxDepth: maxDepth}, strings: d.strings, strip: d.strip}
		if memory != nil {
			memory.begin(&r)
		}
		into := reflect.New(d.elem)
		if r.Peek() == '{' && d.decode(&r, into.Elem()) == nil && r.Peek() == 0 && r.Pos == len(raw) {
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
