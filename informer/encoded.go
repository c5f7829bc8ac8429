package informer

import (
	"slices"

	"github.com/gapless-io/gapless/informer/internal/ref"
)

// Encode makes a source whose objects the cache keeps encoded, without what they have
// in common, in a fifth of the memory or less, and decodes when somebody looks:
//
//	pods := informer.New(informer.Encode(informer.For[*corev1.Pod](cfg, podGVR)))
//
// Nothing else changes. An object that is looked at is the same pointer for all who
// ask, as long as anybody holds it; afterwards it is decoded anew, which takes 20 to
// 50 µs for a pod. A handler's call costs up to two of these, for Old and New, and
// an index one per change. So it is for big collections of which little is looked at.
// Each object is decoded once when it comes, so that one that cannot be decoded is
// found then; a Transform is applied whenever an object is decoded. What objects have
// in common is kept for the source's life, at most 8 MiB.
func Encode[S any, T interface {
	*S
	Object
}](source Source[T],
) Source[T] {
	source.identity.encoded = true
	source.parts = slices.Clone(source.parts)
	for n, part := range source.parts {
		if part.text != nil {
			source.parts[n].backend = part.text // the packing is one of JSON
		}
	}
	source.hold = func(decode func([]byte) (T, error)) func([]byte) (ref.Ref[T], error) {
		packing := ref.NewPacking(func(raw []byte) (*S, error) { return decode(raw) })
		return func(raw []byte) (ref.Ref[T], error) {
			object, err := decode(raw)
			if err != nil {
				return ref.Ref[T]{}, err
			}
			packed, err := packing.Pack(raw, object, ref.Identity{
				Namespace: object.GetNamespace(), Name: object.GetName(),
				UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
			})
			if err != nil {
				return ref.Ref[T]{}, err
			}
			return ref.In(encoded[S, T]{packed}), nil
		}
	}
	return source
}

// encoded is a packed object under its own type.
type encoded[S any, T interface {
	*S
	Object
}] struct {
	*ref.Packed[S]
}

func (e encoded[S, T]) Get() T { return e.Packed.Get() }
