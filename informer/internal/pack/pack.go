// Package pack keeps the JSON of many objects that resemble each other in a tenth of
// its room.
//
// It has two nouns. A [Dictionary] is a bounded memory of texts that came more than
// once: members, values, and whole objects and arrays, such as the managed fields
// that all pods of a Deployment have. A packed text is what is left of an object
// then: references to those, and what is its own.
package pack

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// minText is the shortest text that is worth a reference.
	minText = 4
	// maxText bounds one entry, maxBytes and maxEntries all of them together.
	maxText    = 16 << 10
	maxBytes   = 8 << 20
	maxEntries = 1 << 16
	// marks is how many texts are remembered that came once.
	marks = 1 << 15
	// maxDepth is how deep the walk goes; what is deeper is taken as it is.
	maxDepth = 16
)

// errDamaged says that a packed text is none of this dictionary.
var errDamaged = errors.New("the packed text is damaged")

// Dictionary holds texts that came at least twice. It only grows, up to 8 MiB, because
// packed texts refer to it. It is safe for concurrent use.
type Dictionary struct {
	seed maphash.Seed
	once [marks]atomic.Uint32 // marks of texts that came once

	// entries are all texts, for readers: an array of maxEntries would be 1 MiB, so it
	// is replaced when it has to grow.
	entries atomic.Pointer[[]string]

	// mu guards known and bytes, and who may change entries.
	mu    sync.RWMutex
	known map[string]uint32
	bytes int
}

// New returns an empty dictionary.
func New() *Dictionary {
	d := &Dictionary{seed: maphash.MakeSeed(), known: map[string]uint32{}}
	d.entries.Store(&[]string{})
	return d
}

// Pack appends the packed form of a JSON text to dst. Any text can be packed; only
// JSON gets small.
func (d *Dictionary) Pack(dst, text []byte) []byte {
	p := packer{d: d, text: text, out: dst}
	// The whole is no candidate: another one that is equal is the same object.
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		p.inside(0, ending(text, 0))
	}
	p.literal(len(text))
	p.flush()
	d.learn(p.new)
	return p.out
}

// Unpack appends the text of a packed form to dst.
func (d *Dictionary) Unpack(dst []byte, packed string) ([]byte, error) {
	entries := *d.entries.Load()
	for len(packed) > 0 {
		n, size := uvarint(packed)
		if size <= 0 {
			return dst, errDamaged
		}
		packed = packed[size:]
		if n&1 == 1 {
			if n>>1 >= uint64(len(entries)) {
				return dst, errDamaged
			}
			dst = append(dst, entries[n>>1]...)
			continue
		}
		if n>>1 > uint64(len(packed)) {
			return dst, errDamaged
		}
		dst = append(dst, packed[:n>>1]...)
		packed = packed[n>>1:]
	}
	return dst, nil
}

func uvarint(s string) (n uint64, size int) {
	for shift := 0; size < len(s) && shift < 64; shift += 7 {
		c := s[size]
		size++
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n, size
		}
	}
	return 0, 0
}

// learn takes new texts in while there is room.
func (d *Dictionary) learn(texts [][]byte) {
	if len(texts) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := *d.entries.Load()
	for _, text := range texts {
		if _, has := d.known[string(text)]; has || len(entries) >= maxEntries || d.bytes+len(text) > maxBytes {
			continue
		}
		kept := string(text)
		d.known[kept] = uint32(len(entries)) //nolint:gosec // at most maxEntries
		// Readers have a shorter slice of the same array, or an older array.
		entries = append(entries, kept)
		d.bytes += len(text)
	}
	d.entries.Store(&entries)
}

// find returns the reference to a text; it notes one that came for the second time.
func (p *packer) find(begin, end int) (ref uint32, found bool) {
	text := p.text[begin:end]
	if len(text) < minText || len(text) > maxText {
		return 0, false
	}
	p.d.mu.RLock()
	ref, found = p.d.known[string(text)]
	p.d.mu.RUnlock()
	if found {
		return ref, true
	}
	hash := maphash.Bytes(p.d.seed, text)
	mark := uint32(hash>>32) | 1
	if slot := &p.d.once[hash%marks]; slot.Load() != mark {
		slot.Store(mark)
		return 0, false
	}
	p.new = append(p.new, text)
	p.fresh = true
	return 0, false
}

// packer packs one text.
type packer struct {
	d     *Dictionary
	text  []byte
	out   []byte
	done  int      // text[:done] is in out, or waits in own
	own   int      // text[own:done] is not in out yet
	new   [][]byte // came for the second time
	fresh bool     // find has just added to new
	depth int
}

// literal says that the text up to end is the object's own.
func (p *packer) literal(end int) { p.done = max(p.done, end) }

func (p *packer) flush() {
	if p.own < p.done {
		p.out = binary.AppendUvarint(p.out, uint64(p.done-p.own)<<1)
		p.out = append(p.out, p.text[p.own:p.done]...)
	}
	p.own = p.done
}

// refer puts a reference for text[begin:end].
func (p *packer) refer(ref uint32, begin, end int) {
	p.literal(begin)
	p.flush()
	p.out = binary.AppendUvarint(p.out, uint64(ref)<<1|1)
	p.done, p.own = end, end
}

// try packs text[begin:end] as one reference if it is known. done says that there is
// nothing more to do about it: it is, or will be the next time.
func (p *packer) try(begin, end int) (done bool) {
	p.fresh = false
	ref, found := p.find(begin, end)
	if found {
		p.refer(ref, begin, end)
	}
	return found || p.fresh
}

// value packs the value at begin and returns its end. What is no JSON ends the walk;
// the rest is then the object's own.
func (p *packer) value(begin int) (end int) {
	if begin >= len(p.text) {
		return len(p.text)
	}
	end = ending(p.text, begin)
	switch c := p.text[begin]; {
	case c != '{' && c != '[':
		p.try(begin, end)
	case end-begin > maxText || !p.try(begin, end):
		p.inside(begin, end)
	}
	return end
}

// inside packs the members or items of text[begin:end].
func (p *packer) inside(begin, end int) {
	if p.depth++; p.depth > maxDepth {
		p.depth--
		return
	}
	defer func() { p.depth-- }()
	object := p.text[begin] == '{'
	for at := begin + 1; at < end-1; {
		from := at // with the comma before it, which is nearly always there
		if p.text[at] == ',' {
			at++
		}
		if at >= end-1 {
			return
		}
		if object {
			name := ending(p.text, at)
			if name >= end || p.text[name] != ':' {
				return // space between things, or no JSON: it stays as it is
			}
			value := name + 1
			if next := ending(p.text, value); value < end && next-value < 64 && p.text[value] != '{' && p.text[value] != '[' {
				// A short member is one text, with its value if that comes again.
				if !p.try(from, next) {
					p.try(from, value)
				}
				at = next
				continue
			}
			p.try(from, value)
			at = value
		}
		next := p.value(at)
		if next <= at {
			return
		}
		at = next
	}
}

// ending returns where the value ends that begins at begin; the text's end if it does not.
func ending(text []byte, begin int) int {
	if begin >= len(text) {
		return len(text)
	}
	depth := 0
	for i := begin; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i // of what is around a number or literal
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}
