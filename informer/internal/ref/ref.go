// Package ref is how a cache holds an object: as it is, or packed and decoded when
// somebody looks.
//
// It has three nouns. A [Ref] holds one object either way. A [Packed] is an object as
// text, and a [Packing] what the texts of many have in common.
package ref

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// Object is what can be held.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Ref holds one state of one object. The zero value holds none, and is no object:
// only Get may be called. Two refs are equal if they hold the same pointer.
type Ref[T Object] struct {
	v any // a T or a Holder[T], which is a pointer in either case, so that nothing is allocated
}

// Holder is an object that is decoded when it is looked at.
type Holder[T any] interface {
	// Get returns the object, the same one for all who ask while anybody holds it.
	Get() T
	// Name returns what is known without decoding it.
	Name() (namespace, name string)
	Version() (uid types.UID, rv string)
	// Text appends the text that the object was made of.
	Text(dst []byte) ([]byte, error)
}

// errPlain says that there is no text.
var errPlain = errors.New("the object is held as it is, not as text")

// Text appends the text that a packed object was made of.
func (r Ref[T]) Text(dst []byte) ([]byte, error) {
	if packed, is := r.v.(Holder[T]); is {
		return packed.Text(dst)
	}
	return dst, errPlain
}

// Of holds an object as it is.
func Of[T Object](object T) Ref[T] {
	var none T
	if object == none {
		return Ref[T]{}
	}
	return Ref[T]{v: object}
}

// In holds an object that is decoded when it is looked at.
func In[T Object](packed Holder[T]) Ref[T] { return Ref[T]{v: packed} }

// Get returns the object; the zero value for the zero ref. It is shared.
func (r Ref[T]) Get() T {
	switch v := r.v.(type) {
	case T:
		return v
	case Holder[T]:
		return v.Get()
	}
	var none T
	return none
}

// GetNamespace returns the object's namespace.
func (r Ref[T]) GetNamespace() string {
	if object, is := r.v.(T); is {
		return object.GetNamespace()
	}
	namespace, _ := r.packed().Name()
	return namespace
}

// GetName returns the object's name.
func (r Ref[T]) GetName() string {
	if object, is := r.v.(T); is {
		return object.GetName()
	}
	_, name := r.packed().Name()
	return name
}

// GetUID returns the object's UID.
func (r Ref[T]) GetUID() types.UID {
	if object, is := r.v.(T); is {
		return object.GetUID()
	}
	uid, _ := r.packed().Version()
	return uid
}

// GetResourceVersion returns the object's resource version.
func (r Ref[T]) GetResourceVersion() string {
	if object, is := r.v.(T); is {
		return object.GetResourceVersion()
	}
	_, rv := r.packed().Version()
	return rv
}

func (r Ref[T]) packed() Holder[T] {
	packed, is := r.v.(Holder[T])
	if !is {
		panic("informer: nothing is held")
	}
	return packed
}
