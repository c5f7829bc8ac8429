package informer

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"
)

// Select yields the objects whose labels the selector matches, by namespace and
// name. They are shared and must not be modified. It looks at every object; an
// [Index] does not.
func (s Snapshot[T]) Select(selector labels.Selector) iter.Seq2[Key, T] {
	return choose(s.All(), selector)
}

// Select yields the objects whose labels the selector matches, as they are in one
// state, by namespace and name. They are shared and must not be modified. It holds
// no lock and looks at every object; an [Index] does not.
func (i *Informer[T]) Select(selector labels.Selector) iter.Seq2[Key, T] {
	return i.Snapshot().Select(selector)
}

// choose yields those of all that the selector matches.
func choose[T Object](all iter.Seq2[Key, T], selector labels.Selector) iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		for k, object := range all {
			if selector.Matches(labels.Set(object.GetLabels())) && !yield(k, object) {
				return
			}
		}
	}
}
