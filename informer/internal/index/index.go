// Package index finds objects by a value that is computed from them.
//
// A [Set] holds objects under any number of values each, in two persistent trees. A [Function]
// computes the values, and a [State] is the set for one state of a cache.
package index

import (
	"hash/maphash"
	"iter"

	"github.com/tidwall/btree"
)

// Set holds objects of type T under values of type V. It may be changed until it is
// shared; after that, only a Copy.
type Set[T, V comparable] struct {
	seed    maphash.Seed
	buckets *btree.BTreeG[bucket[V]] // the values, by hash
	pairs   *btree.BTreeG[pair[T]]   // the objects, by value and then in their order
	last    uint64                   // the last bucket's id
}

// bucket is one value: how many objects have it.
type bucket[V comparable] struct {
	hash  uint64
	id    uint64 // never used again
	value V
	count int
}

// pair is one object under one value.
type pair[T comparable] struct {
	bucket uint64
	object T // the zero value is before all others
}

// New returns an empty set. compare orders objects; equal ones are versions of the same
// object. It is never called for the zero value.
func New[T, V comparable](compare func(a, b T) int) *Set[T, V] {
	return &Set[T, V]{
		seed: maphash.MakeSeed(),
		buckets: btree.NewBTreeGOptions(func(a, b bucket[V]) bool {
			if a.hash != b.hash {
				return a.hash < b.hash
			}
			return a.id < b.id
		}, btree.Options{NoLocks: true}),
		pairs: btree.NewBTreeGOptions(func(a, b pair[T]) bool {
			var none T
			switch {
			case a.bucket != b.bucket:
				return a.bucket < b.bucket
			case b.object == none || a.object == b.object:
				return false
			case a.object == none:
				return true
			}
			return compare(a.object, b.object) < 0
		}, btree.Options{NoLocks: true}),
	}
}

// Copy returns a set that can be changed while s is read. It takes constant time.
// Only one goroutine at a time may copy the same set.
func (s *Set[T, V]) Copy() *Set[T, V] {
	return &Set[T, V]{seed: s.seed, buckets: s.buckets.Copy(), pairs: s.pairs.Copy(), last: s.last}
}

// bucket returns the bucket of a value; one with count 0 and the value's hash if there is
// none.
func (s *Set[T, V]) bucket(v V) bucket[V] {
	found := bucket[V]{hash: maphash.Comparable(s.seed, v), value: v}
	s.buckets.Ascend(bucket[V]{hash: found.hash}, func(b bucket[V]) bool {
		if b.hash == found.hash && b.value == v {
			found = b
		}
		return b.hash == found.hash && found.count == 0
	})
	return found
}

// Put adds an object under a value, or replaces an older version of it. It panics if the
// value cannot be hashed.
func (s *Set[T, V]) Put(v V, object T) {
	b := s.bucket(v)
	if b.count == 0 {
		s.last++
		b.id = s.last
	}
	if _, replaced := s.pairs.Set(pair[T]{b.id, object}); !replaced {
		b.count++
		s.buckets.Set(b)
	}
}

// Remove removes any version of an object from a value.
func (s *Set[T, V]) Remove(v V, object T) {
	b := s.bucket(v)
	if b.count == 0 {
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

// Get yields the objects under a value, in their order.
func (s *Set[T, V]) Get(v V) iter.Seq[T] {
	return func(yield func(T) bool) {
		b := s.bucket(v)
		if b.count == 0 {
			return
		}
		s.pairs.Ascend(pair[T]{bucket: b.id}, func(p pair[T]) bool { return p.bucket == b.id && yield(p.object) })
	}
}

// Len is how many objects are under a value.
func (s *Set[T, V]) Len(v V) int { return s.bucket(v).count }

// Values yields each value that has an object, in no order.
func (s *Set[T, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		s.buckets.Scan(func(b bucket[V]) bool { return yield(b.value) })
	}
}
