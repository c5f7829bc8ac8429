// Package compress writes answers in large pieces, and large ones compressed.
package compress

import (
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// From is the size from which an answer is compressed:
// apiserver responsewriters/writers.go defaultGzipThresholdBytes.
const From = 128 << 10

// ChunkBytes is how much of an answer that is not compressed is written at once. net/http puts the size of a chunk and the
// beginning of it into a buffer of 4 KiB, which becomes a TLS record of its own, and so a system call: so much fills that, and
// eight records of 16 KiB.
const ChunkBytes = 4<<10 - chunkHead + PieceBytes

// PieceBytes is how much is written at once of an answer whose length is announced: eight TLS records.
const PieceBytes = 8 * 16 << 10

// chunkHead is what the end of a chunk and the head of the next take in a body of HTTP/1.1.
const chunkHead = len("\r\n20ff8\r\n")

// Writer buffers an answer and writes it in large pieces, compressed if it is larger
// than From and the client accepts that. It sends the status with the first piece. After a
// failed write it drops everything: the client left.
type Writer struct {
	w      http.ResponseWriter
	accept bool
	Code   int   // the status; set before the first Write
	length int64 // of the answer, if Length announced it
	buf    *[]byte
	zip    *gzip.Writer
	failed error
}

// buffers and zippers are pools: only large lists need them.
type pools struct {
	buffers sync.Pool
	zippers sync.Pool
}

//nolint:gochecknoglobals // pools of scratch memory, shared by all servers of a process
var scratch = pools{
	buffers: sync.Pool{New: func() any { b := make([]byte, 0, max(From, ChunkBytes)); return &b }},
	zippers: sync.Pool{New: func() any {
		// Level 1: time matters more than size.
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for unknown levels only
		return z
	}},
}

// New begins an answer; zip reports whether the client accepts gzip. Release ends it.
func New(w http.ResponseWriter, accept bool) *Writer {
	c := &Writer{w: w, accept: accept, Code: http.StatusOK}
	c.buf = scratch.buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	Varies(w.Header())
	return c
}

// Varies adds Vary: Accept-Encoding once, even if an error replaces an answer that was not
// begun.
func Varies(h http.Header) {
	const by = "Accept-Encoding"
	if !slices.Contains(h.Values("Vary"), by) {
		h.Add("Vary", by)
	}
}

// Length announces how many bytes will be written, before the first Write of an answer that is not compressed: it is not sent in
// chunks then.
func (c *Writer) Length(n int64) { c.length = n }

// Write adds to the answer.
func (c *Writer) Write(p []byte) {
	if !c.accept {
		c.fill(p)
		return
	}
	if len(*c.buf)+len(p) > From && len(*c.buf) > 0 {
		c.flush()
	}
	if len(p) > From {
		c.begin()
		c.write(p)
		return
	}
	*c.buf = append(*c.buf, p...)
}

// fill adds to an answer that is not compressed, and writes whole pieces.
func (c *Writer) fill(p []byte) {
	piece := ChunkBytes
	if c.length > 0 {
		piece = PieceBytes
	}
	for len(*c.buf)+len(p) > piece && c.failed == nil {
		if len(*c.buf) == 0 {
			c.begin()
			c.write(p[:piece])
			p = p[piece:]
			continue
		}
		n := piece - len(*c.buf)
		*c.buf = append(*c.buf, p[:n]...)
		p = p[n:]
		c.flush()
	}
	if c.failed == nil {
		*c.buf = append(*c.buf, p...)
	}
}

// flush writes what was buffered; after it the answer is either compressed or not.
func (c *Writer) flush() {
	c.begin()
	c.write(*c.buf)
	*c.buf = (*c.buf)[:0]
}

func (c *Writer) begin() {
	if c.Code == 0 {
		return
	}
	if c.accept {
		c.zip = scratch.zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool holds nothing else
		c.zip.Reset(c.w)
		c.w.Header().Set("Content-Encoding", "gzip")
	}
	if c.length > 0 {
		c.w.Header().Set("Content-Length", strconv.FormatInt(c.length, 10))
	}
	c.w.WriteHeader(c.Code)
	c.Code = 0
}

func (c *Writer) write(p []byte) {
	if c.failed != nil || len(p) == 0 {
		return
	}
	if c.zip != nil {
		_, c.failed = c.zip.Write(p)
	} else {
		_, c.failed = c.w.Write(p)
	}
}

// Begun reports whether a part of the answer was sent.
func (c *Writer) Begun() bool { return c.Code == 0 }

// Close writes the rest.
func (c *Writer) Close() {
	if !c.Begun() { // small: not worth compressing
		c.accept = false
		if c.length == 0 {
			c.length = int64(len(*c.buf))
		}
	}
	c.flush()
	if c.zip != nil && c.failed == nil {
		c.failed = c.zip.Close()
	}
}

// Release frees the scratch memory, and drops what Close has not written.
func (c *Writer) Release() {
	if c.zip != nil {
		scratch.zippers.Put(c.zip)
	}
	*c.buf = (*c.buf)[:0]
	scratch.buffers.Put(c.buf)
	c.buf, c.zip = nil, nil
}
