package informer

import (
	"github.com/gapless-io/gapless/informer/internal/handle"
)

// Encode returns a source whose objects the cache stores compressed, in a fifth of the
// memory or less, and decodes when they are read:
//
//	pods := informer.New(informer.Encode(informer.For[*corev1.Pod](cfg, podGVR)))
//
// All readers of an object get the same pointer while the program refers to it; after that
// the next reader decodes it again, which takes 10 to 50 µs for a pod. A handler's call
// decodes up to two objects, for Old and New, and an index one per change. So Encode is for
// large collections that are read rarely. Each object is also decoded once when it
// arrives, so that undecodable objects are reported then. A Transform is applied whenever
// an object is decoded. The source keeps the parts that objects have in common, at most
// 8 MiB, for its whole life.
func Encode[S any, T interface {
	*S
	Object
}](source Source[T],
) Source[T] {
	source.identity.encoded = true
	source.hold = func(decode func([]byte) (decoded[T], error)) func([]byte) (handle.Handle[T], error) {
		packing := handle.NewPacking(func(raw []byte) (*S, error) {
			d, err := decode(raw)
			return d.object, err
		})
		return func(raw []byte) (handle.Handle[T], error) {
			d, err := decode(raw)
			if err != nil {
				return handle.Handle[T]{}, err
			}
			packed, err := packing.Pack(raw, d.object, handle.Identity{
				Namespace: d.object.GetNamespace(), Name: d.object.GetName(), UID: d.uid, ResourceVersion: d.rv,
			})
			if err != nil {
				return handle.Handle[T]{}, err
			}
			return handle.In(encoded[S, T]{packed}), nil
		}
	}
	return source
}

// encoded is a packed object under its own type.
type encoded[S any, T interface {
	*S
	Object
}] struct {
	*handle.Packed[S]
}

func (e encoded[S, T]) Get() T { return e.Packed.Get() }
