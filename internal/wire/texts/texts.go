// Package texts holds texts that many objects have once for all of them.
//
// A [Text] is such a text. A [Set] has those of a server.
package texts

import (
	"bytes"
	"hash/maphash"
	"runtime"
	"sync"
	"weak"
)

// onceSeen bounds how many texts are known that occurred once, times two.
const onceSeen = 1 << 14

// Set finds texts that were there before. A text is held from its second occurrence on, until
// nobody refers to it. A set is safe for concurrent use.
type Set struct {
	seed maphash.Seed

	// mu guards the rest.
	mu    sync.Mutex
	known map[uint64]weak.Pointer[Text] // by hash
	// recent and older have the hashes of texts that occurred once, of the last onceSeen
	// ones at least.
	recent, older map[uint64]struct{}
}

// Text is a text that is shared. Its bytes must not be modified.
type Text struct{ Bytes []byte }

// New returns an empty set.
func New() *Set {
	return &Set{
		seed: maphash.MakeSeed(), known: map[uint64]weak.Pointer[Text]{},
		recent: map[uint64]struct{}{}, older: map[uint64]struct{}{},
	}
}

// Text returns the text for bytes, which it does not keep; nil if they occur for the first
// time, as far as the set remembers.
func (s *Set) Text(b []byte) *Text {
	hash := maphash.Bytes(s.seed, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if pointer, is := s.known[hash]; is {
		if known := pointer.Value(); known != nil {
			if bytes.Equal(known.Bytes, b) {
				return known
			}
			return nil
		}
	}
	_, once := s.recent[hash]
	if _, before := s.older[hash]; !once && !before {
		if len(s.recent) == onceSeen {
			s.recent, s.older = map[uint64]struct{}{}, s.recent
		}
		s.recent[hash] = struct{}{}
		return nil
	}
	made := &Text{Bytes: bytes.Clone(b)}
	s.known[hash] = weak.Make(made)
	runtime.AddCleanup(made, s.drop, hash)
	return made
}

// drop forgets a text that nobody refers to any more.
func (s *Set) drop(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pointer, is := s.known[hash]; is && pointer.Value() == nil {
		delete(s.known, hash)
	}
}
