// Package handle defines how the cache holds an object: as it is, or packed as text and
// decoded on access.
//
// An [Object] is what can be held, under its [Key]. A [Handle] holds one object, and the UID
// and version that the server gave it. A [Packed] is an object as text, and a [Packing] the
// dictionary of many texts.
package handle

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// Key names an object.
type Key = types.NamespacedName

// KeyOf returns the key of an object, or of a handle.
func KeyOf[T Object](object T) Key {
	return Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Object is what the internal packages need of an object. Handles are objects too.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Handle holds one version of one object. The zero value holds none, and only Get may be
// called on it. Two handles are equal if they hold the same pointer.
type Handle[T Object] struct {
	v any // a T or a Holder[T], which is a pointer in either case, so that nothing is allocated
}

// Holder is an object of type T that is packed, or held with what the server said of it.
// It is an interface because Packed has the type that T points to.
type Holder[T any] interface {
	// Get returns the object: the same pointer as long as it is referenced.
	Get() T
	// Name and Version do not decode the object.
	Name() (namespace, name string)
	Version() (uid types.UID, rv string)
	// Text appends the text that the object was decoded from.
	Text(dst []byte) ([]byte, error)
}

// errPlain says that there is no text.
var errPlain = errors.New("the object is held as it is, not as text")

// Text appends the text that a packed object was decoded from.
func (h Handle[T]) Text(dst []byte) ([]byte, error) {
	if packed, is := h.v.(Holder[T]); is {
		return packed.Text(dst)
	}
	return dst, errPlain
}

// Of returns a handle of an object as it is.
func Of[T Object](object T) Handle[T] {
	var none T
	if object == none {
		return Handle[T]{}
	}
	return Handle[T]{v: object}
}

// OfVersion returns a handle of an object that the server sent with this UID and resource
// version, whatever the object says of itself: a user's function may have dropped them.
func OfVersion[T Object](object T, uid types.UID, rv string) Handle[T] {
	var none T
	if object == none || object.GetUID() == uid && object.GetResourceVersion() == rv {
		return Of(object)
	}
	return Handle[T]{v: &versioned[T]{object: object, uid: uid, rv: rv}}
}

// versioned is a Holder of an object as it is, and of what the server said of it.
type versioned[T Object] struct {
	object T
	uid    types.UID
	rv     string
}

func (v *versioned[T]) Get() T { return v.object }
func (v *versioned[T]) Name() (namespace, name string) {
	return v.object.GetNamespace(), v.object.GetName()
}
func (v *versioned[T]) Version() (uid types.UID, rv string) { return v.uid, v.rv }
func (v *versioned[T]) Text(dst []byte) ([]byte, error)     { return dst, errPlain }

// In returns a handle of a packed object.
func In[T Object](packed Holder[T]) Handle[T] { return Handle[T]{v: packed} }

// Get returns the object; the zero value for the zero handle. It is shared.
func (h Handle[T]) Get() T {
	switch v := h.v.(type) {
	case T:
		return v
	case Holder[T]:
		return v.Get()
	}
	var none T
	return none
}

// GetNamespace returns the object's namespace.
func (h Handle[T]) GetNamespace() string {
	if object, is := h.v.(T); is {
		return object.GetNamespace()
	}
	namespace, _ := h.packed().Name()
	return namespace
}

// GetName returns the object's name.
func (h Handle[T]) GetName() string {
	if object, is := h.v.(T); is {
		return object.GetName()
	}
	_, name := h.packed().Name()
	return name
}

// GetUID returns the object's UID.
func (h Handle[T]) GetUID() types.UID {
	if object, is := h.v.(T); is {
		return object.GetUID()
	}
	uid, _ := h.packed().Version()
	return uid
}

// GetResourceVersion returns the object's resource version.
func (h Handle[T]) GetResourceVersion() string {
	if object, is := h.v.(T); is {
		return object.GetResourceVersion()
	}
	_, rv := h.packed().Version()
	return rv
}

func (h Handle[T]) packed() Holder[T] {
	packed, is := h.v.(Holder[T])
	if !is {
		panic("informer: nothing is held")
	}
	return packed
}
