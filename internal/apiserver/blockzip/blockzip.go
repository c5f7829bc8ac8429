// Package blockzip writes gzip streams from blocks that were compressed before, so that a
// repeated list needs no compression.
//
// A [Block] is a run of bytes in deflated form that refers to
// nothing before it, or a run of plain bytes. A [Stream] is one gzip member (RFC 1952) of blocks and of other
// bytes; any reader of gzip can read it. A [Cache] keeps blocks by their content, within a
// bound.
package blockzip

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
)

// Block is compressed bytes. It is immutable and safe for concurrent use.
type Block struct {
	deflated []byte // ends on a byte boundary, and is not final; nil for a plain block
	plain    []byte // nil for a compressed block, and for a packed one
	packed   []byte // what plain would be, as s2 has it; nil unless a cache packs
	crc      uint32
	shift    uint32 // of size, for combine
	size     int64
}

// Plain returns a block of p that is not compressed, and that keeps p.
func Plain(p []byte) *Block { return &Block{plain: p, size: int64(len(p))} }

// Bytes returns the bytes of a plain block, which must not be modified, and nil for a
// compressed one. A cache that packs has blocks whose bytes are made at each call.
func (b *Block) Bytes() []byte {
	if b.packed == nil {
		return b.plain
	}
	plain, err := s2.Decode(nil, b.packed)
	if err != nil {
		panic("blockzip: a packed block that cannot be unpacked: " + err.Error()) // pack made it
	}
	return plain
}

// pack returns a plain block as a cache keeps it that packs. Unpacking takes about as long as copying: it is many times as
// fast as inflating.
func (b *Block) pack() *Block {
	if b.plain == nil {
		return b
	}
	packed := s2.Encode(nil, b.plain)
	if len(packed) >= len(b.plain) {
		return b
	}
	return &Block{packed: slices.Clone(packed), size: b.size} // Encode takes room for the worst case
}

// Size returns the number of bytes before and after compression.
func (b *Block) Size() (plain, compressed int64) {
	return b.size, int64(len(b.deflated) + len(b.plain) + len(b.packed))
}

// WriteTo writes the bytes as they were before compression.
func (b *Block) WriteTo(w io.Writer) (int64, error) {
	if b.deflated == nil {
		n, err := w.Write(b.Bytes())
		return int64(n), err
	}
	end := []byte{3, 0} // a final block with nothing in it
	plain := flate.NewReader(io.MultiReader(bytes.NewReader(b.deflated), bytes.NewReader(end)))
	n, err := io.Copy(w, plain)
	if closed := plain.Close(); err == nil {
		err = closed
	}
	return n, err
}

// deflaters are idle compressors, of 0.8 MiB each. They are freed by the second garbage
// collection after their last use.
//
//nolint:gochecknoglobals // scratch memory, shared by all servers of a process
var deflaters = sync.Pool{New: func() any {
	// Level 1: time matters more than size.
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // fails for unknown levels only
	return w
}}

// Compress returns a block of the bytes that fill writes. It calls fill once.
func Compress(fill func(write func(p []byte))) *Block {
	b := &Block{}
	_ = deflate((*appender)(&b.deflated), func(write func([]byte)) { // an appender does not fail
		fill(func(p []byte) {
			b.crc = crc32.Update(b.crc, crc32.IEEETable, p)
			b.size += int64(len(p))
			write(p)
		})
	})
	b.shift = shiftOf(b.size)
	return b
}

// deflate compresses what fill writes, up to a byte boundary and without reference
// to what was written before it.
func deflate(to io.Writer, fill func(write func(p []byte))) (err error) {
	w := deflaters.Get().(*flate.Writer) //nolint:forcetypeassert // the pool holds nothing else
	w.Reset(to)
	fill(func(p []byte) {
		if err == nil {
			_, err = w.Write(p)
		}
	})
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	deflaters.Put(w)
	return err
}

type appender []byte

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// Stream writes a gzip member. It is used by one goroutine at a time. Between two
// calls it holds a checksum and a length, and no compressor.
type Stream struct {
	to   io.Writer
	crc  uint32
	size int64
	err  error
}

// storedMost is the longest stored block (RFC 1951 3.2.4).
const storedMost = 1<<16 - 1

// NewStream writes the header. The first error of a write is returned by Close;
// nothing is written after it.
func NewStream(to io.Writer) *Stream {
	s := &Stream{to: to}
	s.write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}) // fastest, unknown system
	return s
}

// Plain adds bytes uncompressed: for the few bytes around the blocks.
func (s *Stream) Plain(p []byte) {
	for len(p) > 0 {
		n := min(len(p), storedMost)
		var head [5]byte // not final, stored, length, and its complement
		binary.LittleEndian.PutUint16(head[1:], uint16(n))
		binary.LittleEndian.PutUint16(head[3:], ^uint16(n))
		s.write(head[:])
		s.write(p[:n])
		s.count(p[:n])
		p = p[n:]
	}
}

// Deflate adds bytes compressed. A reader can decode all of them from what was written so
// far.
func (s *Stream) Deflate(p []byte) {
	if s.err == nil {
		s.err = deflate(s.to, func(write func([]byte)) { write(p) })
	}
	s.count(p)
}

func (s *Stream) count(p []byte) {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	s.size += int64(len(p))
}

// Block adds a block.
func (s *Stream) Block(b *Block) {
	if b.deflated == nil {
		s.Plain(b.Bytes())
		return
	}
	s.write(b.deflated)
	s.crc = combine(s.crc, b.crc, b.shift)
	s.size += b.size
}

// Close ends the member and returns the first error of a write.
func (s *Stream) Close() error {
	end := []byte{3, 0} // a final block with nothing in it
	end = binary.LittleEndian.AppendUint32(end, s.crc)
	end = binary.LittleEndian.AppendUint32(end, uint32(s.size)) //nolint:gosec // modulo 2^32, says the format
	s.write(end)
	return s.err
}

func (s *Stream) write(p []byte) {
	if s.err == nil {
		_, s.err = s.to.Write(p)
	}
}

// combine returns the CRC-32 of two runs of bytes one after the other from theirs and the shift of the second.
func combine(first, second, shift uint32) uint32 { return multiply(shift, first) ^ second }

// shiftOf returns what multiplies the CRC-32 of what comes before so many bytes: x^(8·length), in the field of the polynomial.
func shiftOf(length int64) uint32 {
	shift, power := uint32(1)<<31, uint32(1)<<23 // x^0 and x^8; the highest bit is x^0
	for ; length > 0; length >>= 1 {
		if length&1 == 1 {
			shift = multiply(shift, power)
		}
		power = multiply(power, power)
	}
	return shift
}

// multiply returns a·b modulo the polynomial of CRC-32.
func multiply(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
