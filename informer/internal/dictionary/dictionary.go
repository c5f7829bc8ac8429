// Package dictionary compresses the JSON or protobuf of many similar objects to a tenth or a
// quarter of its size, by replacing texts that several of them contain with references.
//
// A [Dictionary] is a bounded table of such texts: names and values of members, whole objects
// and arrays, and fields of protobuf's messages (such as the managed fields that all pods of a
// Deployment have). The compressed form of an object is a sequence of references to it and of
// the object's own text.
package dictionary

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// minText is the shortest text that gets an entry, in bytes.
	minText = 4
	// maxText is the longest entry, maxBytes and maxEntries bound all of them together.
	maxText    = 16 << 10
	maxBytes   = 8 << 20
	maxEntries = 1 << 16
	// marks is how many texts that occurred once are remembered, by hash.
	marks = 1 << 15
	// maxDepth is how deep the compressor looks; deeper values are copied.
	maxDepth = 16
)

// errDamaged reports a compressed text that this dictionary did not make.
var errDamaged = errors.New("the compressed text is damaged")

// Dictionary holds texts that occurred at least twice. It only grows, up to 8 MiB, because
// compressed texts refer to it. It is safe for concurrent use.
type Dictionary struct {
	seed maphash.Seed
	once [marks]atomic.Uint32 // marks of texts that occurred once

	// entries are all texts, for readers: an array of maxEntries would be 1 MiB, so it
	// is replaced when it has to grow.
	entries atomic.Pointer[[]string]

	// mu guards known and bytes, and who may change entries.
	mu    sync.RWMutex
	known map[uint64]uint32 // the entries by hash; of several with one hash only the first is found
	bytes int
}

// New returns an empty dictionary.
func New() *Dictionary {
	d := &Dictionary{seed: maphash.MakeSeed(), known: map[uint64]uint32{}}
	d.entries.Store(&[]string{})
	return d
}

// Compress appends the compressed form of an object to dst. Any text is allowed; only JSON
// and Kubernetes' protobuf encoding get smaller.
func (d *Dictionary) Compress(dst, text []byte) []byte {
	p := compressor{d: d, text: text, out: dst}
	switch {
	case isObject(text):
		p.object()
	// The whole text gets no entry: no other object is equal to it.
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		p.inside(0, ending(text, 0))
	}
	p.literal(len(text))
	p.flush()
	d.learn(p.new)
	return p.out
}

// Decompress appends the text of a compressed form to dst. Errors: compressed is not a result
// of Compress of this dictionary.
func (d *Dictionary) Decompress(dst []byte, compressed string) ([]byte, error) {
	entries := *d.entries.Load()
	for len(compressed) > 0 {
		n, size := uvarint(compressed)
		if size <= 0 {
			return dst, errDamaged
		}
		compressed = compressed[size:]
		if n&1 == 1 {
			if n>>1 >= uint64(len(entries)) {
				return dst, errDamaged
			}
			dst = append(dst, entries[n>>1]...)
			continue
		}
		if n>>1 > uint64(len(compressed)) {
			return dst, errDamaged
		}
		dst = append(dst, compressed[:n>>1]...)
		compressed = compressed[n>>1:]
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

// newText is a text that occurred for the second time.
type newText struct {
	hash uint64
	text []byte
}

// learn adds texts while there is room.
func (d *Dictionary) learn(texts []newText) {
	if len(texts) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := *d.entries.Load()
	for _, n := range texts {
		if _, has := d.known[n.hash]; has || len(entries) >= maxEntries || d.bytes+len(n.text) > maxBytes {
			continue
		}
		d.known[n.hash] = uint32(len(entries)) //nolint:gosec // at most maxEntries
		// Readers have a shorter slice of the same array, or an older array.
		entries = append(entries, string(n.text))
		d.bytes += len(n.text)
	}
	d.entries.Store(&entries)
}

// find returns the reference to text[begin:end]. A text that occurs for the second time is
// noted for learn.
func (p *compressor) find(begin, end int) (ref uint32, found bool) {
	text := p.text[begin:end]
	if len(text) < minText || len(text) > maxText {
		return 0, false
	}
	hash := maphash.Bytes(p.d.seed, text)
	p.d.mu.RLock()
	ref, found = p.d.known[hash]
	p.d.mu.RUnlock()
	if found { // the entries are stored before mu is unlocked
		return ref, (*p.d.entries.Load())[ref] == string(text)
	}
	mark := uint32(hash>>32) | 1
	if slot := &p.d.once[hash%marks]; slot.Load() != mark {
		slot.Store(mark)
		return 0, false
	}
	p.new = append(p.new, newText{hash, text})
	p.fresh = true
	return 0, false
}

// compressor compresses one text.
type compressor struct {
	d     *Dictionary
	text  []byte
	out   []byte
	done  int // text[:done] is in out, or copied by flush
	own   int // text[own:done] is not in out yet
	new   []newText
	fresh bool // find has just added to new
	depth int
}

// literal has the text up to end copied.
func (p *compressor) literal(end int) { p.done = max(p.done, end) }

func (p *compressor) flush() {
	if p.own < p.done {
		p.out = binary.AppendUvarint(p.out, uint64(p.done-p.own)<<1)
		p.out = append(p.out, p.text[p.own:p.done]...)
	}
	p.own = p.done
}

// refer puts a reference for text[begin:end].
func (p *compressor) refer(ref uint32, begin, end int) {
	p.literal(begin)
	p.flush()
	p.out = binary.AppendUvarint(p.out, uint64(ref)<<1|1)
	p.done, p.own = end, end
}

// try writes text[begin:end] as one reference if it is known. done means that its parts
// need not be looked at: it is known, or will be the next time.
func (p *compressor) try(begin, end int) (done bool) {
	p.fresh = false
	ref, found := p.find(begin, end)
	if found {
		p.refer(ref, begin, end)
	}
	return found || p.fresh
}

// value compresses the value at begin and returns its end. At text that is not JSON it
// stops; the rest is then copied.
func (p *compressor) value(begin int) (end int) {
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

// inside compresses the members or items of text[begin:end].
func (p *compressor) inside(begin, end int) {
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
				return // space between things, or no JSON: it is copied
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

// ending returns the end of the value that begins at begin, or the end of the text. It does
// not check the JSON: a wrong end makes the result larger, never wrong, and scan.Scanner,
// which checks it, makes BenchmarkCompress 1.9 times slower.
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
				return i // the end of the object or array around a number or literal
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}
