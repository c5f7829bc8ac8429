package store

// bufferChunk is how much memory a Buffer takes at once, in bytes.
const bufferChunk = 256 << 10

// Buffer is memory that values are read into one page or batch after the other, for a
// reader that needs them only until its next Read or Next. The zero value is ready. It
// is used by one of these at a time.
type Buffer struct {
	chunks [][]byte // of bufferChunk each
	full   int      // how many of them are taken
	used   int      // of the one after them
}

// Reset makes all memory free again that was taken.
func (b *Buffer) Reset() { b.full, b.used = 0, 0 }

// Take returns n bytes, which are not cleared. What is larger than a chunk is not
// kept for later.
func (b *Buffer) Take(n int) []byte {
	if n > bufferChunk {
		return make([]byte, n)
	}
	if n > bufferChunk-b.used {
		b.full, b.used = b.full+1, 0
	}
	if b.full == len(b.chunks) {
		b.chunks = append(b.chunks, make([]byte, bufferChunk))
	}
	at := b.used
	b.used += n
	return b.chunks[b.full][at:b.used:b.used]
}
