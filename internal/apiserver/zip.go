package apiserver

import (
	"bufio"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/kube"
)

const (
	// zippedBytes bounds the compressed blocks of lists that are kept for the next list.
	zippedBytes = 64 << 20
	// blockItems is how many items a block has on average, and blockBytes when it ends
	// at the latest.
	blockItems = 64
	blockBytes = 256 << 10
)

//nolint:gochecknoglobals // scratch memory, shared by all servers of a process
var pieces = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, chunkBytes) }}

// zipper writes a list of whole objects compressed, block by block: a block that
// an earlier list had is taken as it is. Where blocks begin depends on the items
// alone, so that a write changes one block and leaves the others. A list that is
// too small to be compressed is written as it is.
type zipper struct {
	w      http.ResponseWriter
	cache  *blockzip.Cache
	form   string
	head   []byte
	out    *bufio.Writer
	stream *blockzip.Stream // nil until the list is known to be large
	held   []*kube.Object   // what was not written yet
	bytes  int
	comma  bool // a block was written
	ids    []uint64
}

// zippedGauge says how much memory the blocks take.
func (s *Server) zippedGauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gapless_list_compressed_bytes", Help: "Compressed blocks of lists that are kept for the next list.",
	}, func() float64 { return float64(s.zipped.Bytes()) })
}

// listZipped answers with a list in JSON.
func (s *Server) listZipped(w http.ResponseWriter, head []byte, l *kube.List) {
	z := &zipper{w: w, cache: s.zipped, head: head}
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", mediaJSON)
	for o := range l.Items {
		z.add(o)
	}
	if z.stream == nil {
		z.writePlain()
		return
	}
	z.flush()
	z.stream.Plain([]byte(listTail))
	_ = z.stream.Close() // the client left
	_ = z.out.Flush()
	z.out.Reset(nil)
	pieces.Put(z.out)
}

// listTail ends a list and its line.
const listTail = "]}\n"

func (z *zipper) add(o *kube.Object) {
	if z.stream != nil && len(z.held) > 0 && (begins(o) || z.bytes >= blockBytes) {
		z.flush()
	}
	z.held = append(z.held, o)
	z.bytes += len(o.JSON())
	if z.stream == nil && len(z.head)+z.bytes > gzipFrom {
		z.begin()
	}
}

// begins says whether a block begins with the item; it depends on its version
// only, by Fibonacci hashing.
func begins(o *kube.Object) bool {
	return uint64(o.ResourceVersion())*0x9E3779B97F4A7C15>>32%blockItems == 0
}

// begin sends the header, and then what was held back as if it came now.
func (z *zipper) begin() {
	z.w.Header().Set("Content-Encoding", "gzip")
	z.w.WriteHeader(http.StatusOK)
	z.out = pieces.Get().(*bufio.Writer) //nolint:forcetypeassert // the pool holds nothing else
	z.out.Reset(z.w)
	z.stream = blockzip.NewStream(z.out)
	z.stream.Plain(z.head)
	held := z.held
	z.held, z.bytes = nil, 0
	z.form = held[0].APIVersion() + " " + held[0].Kind()
	for _, o := range held {
		z.add(o)
	}
}

// flush writes what is held as one block; a comma stands between two.
func (z *zipper) flush() {
	z.ids = z.ids[:0]
	for _, o := range z.held {
		z.ids = append(z.ids, uint64(o.ResourceVersion()))
	}
	block := z.cache.Block(blockzip.Parts{Form: z.form, Items: z.ids}, func() *blockzip.Block {
		return blockzip.Compress(func(write func([]byte)) { writeItems(z.held, write) })
	})
	if z.comma {
		z.stream.Plain([]byte{','})
	}
	z.stream.Block(block)
	z.comma = true
	clear(z.held)
	z.held, z.bytes = z.held[:0], 0
}

func writeItems(items []*kube.Object, write func([]byte)) {
	for i, o := range items {
		if i > 0 {
			write([]byte{','})
		}
		write(o.JSON())
	}
}

// writePlain answers with a small list.
func (z *zipper) writePlain() {
	body := z.head
	writeItems(z.held, func(p []byte) { body = append(body, p...) })
	z.w.WriteHeader(http.StatusOK)
	_, _ = z.w.Write(append(body, listTail...)) // the client left
}
