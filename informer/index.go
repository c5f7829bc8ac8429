package informer

import (
	"fmt"
	"iter"

	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/index"
)

// Index finds objects by a value that is computed from each. It is part of the cache's
// state: an object that is in a state is in its index too, under the values of exactly
// that state, and a handler that is called sees an index at its event's state or a newer
// one. All methods are safe for concurrent use and hold no lock.
type Index[T Object, V comparable] struct {
	informer *Informer[T]
	function *index.Function[T, V]
	place    int                // in the snapshots of informer
	fixed    *index.State[T, V] // of an index of one state; nil: the newest
}

// NewIndex adds an index to an informer. While the informer runs, it reads the existing
// objects first and returns when the index is complete. An object is found under each of
// its values; it can have none.
//
// values must depend only on the object and must not call the informer, which waits for
// it. If it panics, the incident IndexPanicked is reported, and the object is left out of
// this index until it changes. name is for incidents. An index lives as long as its
// informer.
func NewIndex[T Object, V comparable](i *Informer[T], name string, values func(object T) []V) *Index[T, V] {
	x, report := BuildIndex(i, name, func(buffer []V, object T) []V { return append(buffer, values(object)...) })
	report()
	return x
}

// NewIndex1 is NewIndex for a function with exactly one value, which can be the zero
// value.
func NewIndex1[T Object, V comparable](i *Informer[T], name string, value func(object T) V) *Index[T, V] {
	x, report := BuildIndex(i, name, func(buffer []V, object T) []V { return append(buffer, value(object)) })
	report()
	return x
}

// BuildIndex is NewIndex for callers that make an index under a lock, which OnError might
// need too: report reports the incidents of the existing objects, and must be called once,
// without the lock. values appends the values of an object to a buffer.
func BuildIndex[T Object, V comparable](i *Informer[T], name string,
	values func(buffer []V, object T) []V,
) (x *Index[T, V], report func()) {
	f := &index.Function[T, V]{Values: values, Panicked: func(key Key, rv string, err *incident.PanicError) {
		i.cache.Note(incident.Incident{
			Kind: incident.IndexPanicked, Key: key, RV: rv,
			Err: fmt.Errorf("index %s: %w", name, &PanicError{Value: err.Value, Stack: err.Stack}),
		})
	}}
	return &Index[T, V]{informer: i, function: f, place: cache.AddIndex(i.cache, f)}, i.cache.ReportNoted
}

// Get yields the objects with value v, by namespace and name, as they are in one
// state. They are shared and must not be modified.
func (x *Index[T, V]) Get(v V) iter.Seq2[Key, T] {
	set := x.state().Set()
	return func(yield func(Key, T) bool) {
		for object := range set.Get(v) {
			if !yield(handle.KeyOf(object), object.Get()) {
				return
			}
		}
	}
}

// Len is how many objects have value v. It takes the same time for many as for few.
func (x *Index[T, V]) Len(v V) int { return x.state().Set().Len(v) }

// Values yields each value that an object has, in no order.
func (x *Index[T, V]) Values() iter.Seq[V] { return x.state().Set().Values() }

// At returns the index of one state, which never changes, to read several things that
// belong together. It costs nothing, unless the snapshot is older than the index or of
// another informer: then all of it is indexed.
func (x *Index[T, V]) At(s Snapshot[T]) *Index[T, V] {
	at := *x
	if at.fixed = cache.Index(s.state(), x.place, x.function); at.fixed == nil {
		at.fixed = x.function.Build(s.state().Tree)
		x.informer.cache.ReportNoted()
	}
	return &at
}

func (x *Index[T, V]) state() *index.State[T, V] {
	if x.fixed != nil {
		return x.fixed
	}
	return cache.Index(x.informer.cache.Current(), x.place, x.function)
}
