package apiserver

import (
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipFrom is the size from which an answer is compressed:
// apiserver responsewriters/writers.go defaultGzipThresholdBytes.
const gzipFrom = 128 << 10

// chunkBytes is how much of an answer that is not compressed is written at once.
const chunkBytes = 64 << 10

// compressor gathers an answer and writes it in large pieces; once it is larger
// than gzipFrom, and if the client takes it, compressed. The status is sent with
// the first piece. After a failed write everything is dropped: the client left.
type compressor struct {
	w      http.ResponseWriter
	accept bool
	code   int
	buf    *[]byte
	zip    *gzip.Writer
	failed error
}

// buffers and zippers are pools: they are what a large list needs and nothing else.
type pools struct {
	buffers sync.Pool
	zippers sync.Pool
}

//nolint:gochecknoglobals // pools of scratch memory, shared by all servers of a process
var scratch = pools{
	buffers: sync.Pool{New: func() any { b := make([]byte, 0, gzipFrom+chunkBytes); return &b }},
	zippers: sync.Pool{New: func() any {
		// Level 1: the time of a list is the server's, the bytes are a network's.
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for unknown levels only
		return z
	}},
}

func newCompressor(w http.ResponseWriter, accept bool) *compressor {
	c := &compressor{w: w, accept: accept, code: http.StatusOK}
	c.buf = scratch.buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	w.Header().Add("Vary", "Accept-Encoding")
	return c
}

// Write adds to the answer.
func (c *compressor) Write(p []byte) {
	if c.failed != nil {
		return
	}
	limit := chunkBytes
	if c.accept {
		limit = gzipFrom
	}
	if len(*c.buf)+len(p) > limit && len(*c.buf) > 0 {
		c.flush()
	}
	if len(p) > limit {
		c.begin()
		c.write(p)
		return
	}
	*c.buf = append(*c.buf, p...)
}

// flush writes what was gathered; from then on the answer is compressed, or not.
func (c *compressor) flush() {
	c.begin()
	c.write(*c.buf)
	*c.buf = (*c.buf)[:0]
}

func (c *compressor) begin() {
	if c.code == 0 {
		return
	}
	if c.accept {
		c.zip = scratch.zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool holds nothing else
		c.zip.Reset(c.w)
		c.w.Header().Set("Content-Encoding", "gzip")
	}
	c.w.WriteHeader(c.code)
	c.code = 0
}

func (c *compressor) write(p []byte) {
	if c.failed != nil || len(p) == 0 {
		return
	}
	if c.zip != nil {
		_, c.failed = c.zip.Write(p)
	} else {
		_, c.failed = c.w.Write(p)
	}
}

// begun says whether the client has been sent a part of the answer.
func (c *compressor) begun() bool { return c.code == 0 }

// close writes the rest.
func (c *compressor) close() {
	if !c.begun() { // small: not worth compressing
		c.accept = false
	}
	c.flush()
	if c.zip != nil && c.failed == nil {
		c.failed = c.zip.Close()
	}
}

// release gives the scratch memory back, also that of an answer that was broken
// off: what close did not write is dropped.
func (c *compressor) release() {
	if c.zip != nil {
		scratch.zippers.Put(c.zip)
	}
	*c.buf = (*c.buf)[:0]
	scratch.buffers.Put(c.buf)
	c.buf, c.zip = nil, nil
}
