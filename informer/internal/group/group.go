// Package group finds objects by a value that they have.
//
// It has one noun: a [Set] of objects, each under any number of values, as two
// persistent trees.
package group

import (
	"hash/maphash"
	"iter"

	"github.com/tidwall/btree"
)

// Set holds objects of type T under values of type V. Whoever made it may change it
// until it is shared; from then on only a Copy.
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

// New makes an empty set of objects that compare orders; those that it finds equal
// are the same object in different states. It is never called for the zero value.
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

// Copy returns a set that can be changed while s is read. It costs next to nothing.
// Only one goroutine at a time may copy the same set.
func (s *Set[T, V]) Copy() *Set[T, V] {
	return &Set[T, V]{seed: s.seed, buckets: s.buckets.Copy(), pairs: s.pairs.Copy(), last: s.last}
}

// bucket finds a value's, which has count 0 and the value's hash if there is none.
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

// Put puts an object under a value, in place of an older state of it. It panics if
// the value cannot be hashed.
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

// Remove takes an object, in whatever state it is there, away from a value.
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
