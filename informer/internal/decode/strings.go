package decode

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	// slots bounds how many strings are remembered: 8192 of at most maxShared bytes.
	slots     = 1 << 13
	maxShared = 128
)

// Strings makes equal strings one string. It remembers a bounded number of those it
// has met at least twice, so that what is unique (names, UIDs) pushes nothing out.
// It is safe for concurrent use.
type Strings struct {
	seed maphash.Seed
	// once holds a mark of the last string that was met and not remembered.
	once [slots]atomic.Uint32
	kept [slots]atomic.Pointer[shared]
}

// shared is a string and the interface value that holds it, which costs an
// allocation to make.
type shared struct {
	text string
	box  any
}

// NewStrings returns an empty memory of strings: 96 KiB, and up to 1.5 MiB when full.
func NewStrings() *Strings { return &Strings{seed: maphash.MakeSeed()} }

// Of returns b as a string.
func (s *Strings) Of(b []byte) string {
	text, _ := s.find(b)
	return text
}

// Boxed returns b as a string in an interface.
func (s *Strings) Boxed(b []byte) any {
	text, found := s.find(b)
	if found != nil {
		return found.box
	}
	return text
}

func (s *Strings) find(b []byte) (string, *shared) {
	switch {
	case len(b) == 0:
		return "", nil
	case len(b) > maxShared:
		return string(b), nil
	}
	hash := maphash.Bytes(s.seed, b)
	slot, mark := hash%slots, uint32(hash>>32)|1
	if kept := s.kept[slot].Load(); kept != nil && kept.text == string(b) {
		return kept.text, kept
	}
	text := string(b)
	if s.once[slot].Load() != mark {
		s.once[slot].Store(mark)
		return text, nil
	}
	kept := &shared{text: text, box: text}
	s.kept[slot].Store(kept)
	return text, kept
}

// Word is a place in a type for strings, which knows whether they come again there. It is
// safe for concurrent use.
type Word struct {
	site Site
	last atomic.Pointer[shared] // one that came there
}

// Of returns b as a string, which is one of s unless strings rarely come again at that place.
// counts says that the object is one of those that count.
func (w *Word) Of(s *Strings, b []byte, counts bool) string {
	if last := w.last.Load(); last != nil && last.text == string(b) {
		return last.text
	}
	if !w.site.Seeks(counts) {
		return string(b)
	}
	value, known := s.find(b)
	if counts {
		w.site.Note(known != nil || len(b) == 0)
		if known != nil {
			w.last.Store(known)
		}
	}
	return value
}
