package informer

import (
	"fmt"
	"hash/maphash"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidwall/btree"
)

// Index finds objects by a value that is computed from each. It is part of the
// cache's state: whoever sees an object sees it in the index too, under the values
// of that very state, and a handler that is called sees an index at its event's
// state or a newer one. All methods are safe for concurrent use and hold no lock.
type Index[T Object, V comparable] struct {
	informer *Informer[T]
	name     string
	values   func(buffer []V, object T) []V
	seed     maphash.Seed
	place    int               // in snapshot.indexed
	fixed    *indexState[T, V] // of an index of one state; nil: the newest
}

// NewIndex adds an index to an informer, also while it runs: then it reads the
// objects that are there first, and returns when it is complete. An object is found
// under each of its values, and under none if there are none.
//
// The function must depend on nothing but the object and must not call the informer;
// the cache waits for it. When it panics, that is an incident (IndexPanicked), and
// the object is left out of this index until its next state. name is for incidents.
// An index lives as long as its informer.
func NewIndex[T Object, V comparable](i *Informer[T], name string, values func(object T) []V) *Index[T, V] {
	return newIndex(i, name, func(buffer []V, object T) []V { return append(buffer, values(object)...) })
}

// NewIndex1 is NewIndex for a function with exactly one value, the zero value
// included.
func NewIndex1[T Object, V comparable](i *Informer[T], name string, value func(object T) V) *Index[T, V] {
	return newIndex(i, name, func(buffer []V, object T) []V { return append(buffer, value(object)) })
}

func newIndex[T Object, V comparable](i *Informer[T], name string, values func([]V, T) []V) *Index[T, V] {
	x := &Index[T, V]{informer: i, name: name, values: values, seed: maphash.MakeSeed()}
	from := i.Snapshot()
	st := x.build(from)
	i.publishing.Lock()
	defer i.publishing.Unlock()
	now := i.Snapshot()
	for e := range now.Diff(from) {
		st.change(x, e.Key, e.Old, e.New)
	}
	x.place = len(i.indexers)
	i.indexers = append(i.indexers, x.next)
	next := *now.of
	next.indexed = append(slices.Clip(next.indexed), st)
	next.superseded = make(chan struct{})
	i.current.Store(&next)
	close(now.of.superseded)
	return x
}

// Get yields the objects with value v, by namespace and name, as they are in one
// state. They are shared and must not be modified.
func (x *Index[T, V]) Get(v V) iter.Seq2[Key, T] {
	st := x.state()
	return func(yield func(Key, T) bool) {
		b, found := st.bucket(maphash.Comparable(x.seed, v), v)
		if !found {
			return
		}
		st.pairs.Ascend(pair[T]{bucket: b.id}, func(p pair[T]) bool {
			return p.bucket == b.id && yield(keyOf(p.object), p.object)
		})
	}
}

// Len is how many objects have value v. It takes no longer for many than for few.
func (x *Index[T, V]) Len(v V) int {
	b, _ := x.state().bucket(maphash.Comparable(x.seed, v), v)
	return b.count
}

// Values yields each value that an object has, in no order.
func (x *Index[T, V]) Values() iter.Seq[V] {
	st := x.state()
	return func(yield func(V) bool) {
		st.buckets.Scan(func(b bucket[V]) bool { return yield(b.value) })
	}
}

// At is the index of one state, unchanging like it, to read several things that
// belong together. It costs nothing, but if the snapshot is older than the index or
// another informer's: then all of it is read.
func (x *Index[T, V]) At(s Snapshot[T]) *Index[T, V] {
	at := *x
	at.fixed = nil
	if s.of != nil && x.place < len(s.of.indexed) {
		// Another informer has another type here, or an index of another function.
		if st, is := s.of.indexed[x.place].(*indexState[T, V]); is && st.of == x.seed {
			at.fixed = st
		}
	}
	if at.fixed == nil {
		at.fixed = x.build(s)
	}
	return &at
}

func (x *Index[T, V]) state() *indexState[T, V] {
	if x.fixed != nil {
		return x.fixed
	}
	st, is := x.informer.current.Load().indexed[x.place].(*indexState[T, V])
	if !is {
		panic("informer: another index is in this place")
	}
	return st
}

// build indexes a whole state.
func (x *Index[T, V]) build(s Snapshot[T]) *indexState[T, V] {
	st := &indexState[T, V]{of: x.seed, buckets: newBuckets[V](), pairs: newPairs[T]()}
	var none T
	for k, object := range s.All() {
		st.change(x, k, none, object)
	}
	return st
}

// next is the index after changes. It belongs to who publishes.
func (x *Index[T, V]) next(indexed any, changes []change[T]) any {
	old, is := indexed.(*indexState[T, V])
	if !is {
		panic("informer: another index is in this place")
	}
	st := &indexState[T, V]{of: old.of, buckets: old.buckets.Copy(), pairs: old.pairs.Copy(), last: old.last}
	for _, c := range changes {
		st.change(x, c.Key, c.Old, c.New)
	}
	return st
}

// compute returns the object's values, each once, or why there are none.
func (x *Index[T, V]) compute(buffer []hashed[V], object T) (all []hashed[V], err error) {
	defer func() {
		if v := recover(); v != nil {
			all, err = nil, &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	var room [4]V
	for _, v := range x.values(room[:0], object) {
		// What is not equal to itself, a NaN, could never be found again.
		if v == v && !slices.ContainsFunc(buffer, func(h hashed[V]) bool { return h.value == v }) {
			buffer = append(buffer, hashed[V]{maphash.Comparable(x.seed, v), v})
		}
	}
	return buffer, nil
}

func (x *Index[T, V]) panicked(key Key, object T, err error) {
	x.informer.report(Incident{
		Kind: IndexPanicked, At: time.Now(), Key: key, RV: object.GetResourceVersion(),
		Err: fmt.Errorf("index %s: %w", x.name, err),
	})
}

// hashed is a value with its hash.
type hashed[V comparable] struct {
	hash  uint64
	value V
}

// bucket is one value: how many objects have it.
type bucket[V comparable] struct {
	hashed[V]
	id    uint64 // never used again
	count int
}

// pair is one object under one value. Its key is in the object: an index of many
// objects needs little besides them.
type pair[T Object] struct {
	bucket uint64
	object T // the zero value is before all others
}

func (p pair[T]) before(other pair[T]) bool {
	var none T
	switch {
	case p.bucket != other.bucket:
		return p.bucket < other.bucket
	case other.object == none || p.object == other.object:
		return false
	case p.object == none:
		return true
	}
	return compareKeys(keyOf(p.object), keyOf(other.object)) < 0
}

// indexState is an index as it is in one snapshot; then it never changes. It is two
// persistent trees: the values by hash, and all objects by value and key.
type indexState[T Object, V comparable] struct {
	of      maphash.Seed // the index's own, which tells it from others
	buckets *btree.BTreeG[bucket[V]]
	pairs   *btree.BTreeG[pair[T]]
	last    uint64 // the last bucket's id
}

func newBuckets[V comparable]() *btree.BTreeG[bucket[V]] {
	return btree.NewBTreeGOptions(func(a, b bucket[V]) bool {
		if a.hash != b.hash {
			return a.hash < b.hash
		}
		return a.id < b.id
	}, btree.Options{NoLocks: true})
}

func newPairs[T Object]() *btree.BTreeG[pair[T]] {
	return btree.NewBTreeGOptions(pair[T].before, btree.Options{NoLocks: true})
}

// bucket finds a value's.
func (s *indexState[T, V]) bucket(hash uint64, v V) (b bucket[V], found bool) {
	s.buckets.Ascend(bucket[V]{hashed: hashed[V]{hash: hash}}, func(other bucket[V]) bool {
		if other.hash == hash && other.value == v {
			b, found = other, true
		}
		return other.hash == hash && !found
	})
	return b, found
}

// change takes over one object's way from one state to the next; the zero value
// stands for "not there".
func (s *indexState[T, V]) change(x *Index[T, V], key Key, from, to T) {
	var none T
	var before, after [4]hashed[V]
	var was, is []hashed[V]
	if from != none {
		was, _ = x.compute(before[:0], from) // if it panics, that was reported when it came
	}
	if to != none {
		var err error
		if is, err = x.compute(after[:0], to); err != nil {
			x.panicked(key, to, err)
		}
	}
	for _, h := range was {
		if !slices.Contains(is, h) {
			s.remove(h, from)
		}
	}
	for _, h := range is {
		s.put(h, to)
	}
}

func (s *indexState[T, V]) put(h hashed[V], object T) {
	b, found := s.bucket(h.hash, h.value)
	if !found {
		s.last++
		b = bucket[V]{hashed: h, id: s.last}
	}
	if _, replaced := s.pairs.Set(pair[T]{b.id, object}); !replaced {
		b.count++
		s.buckets.Set(b)
	}
}

func (s *indexState[T, V]) remove(h hashed[V], object T) {
	b, found := s.bucket(h.hash, h.value)
	if !found {
		return
	}
	if _, was := s.pairs.Delete(pair[T]{b.id, object}); !was {
		return
	}
	if b.count--; b.count == 0 {
		s.buckets.Delete(b)
	} else {
		s.buckets.Set(b)
	}
}
