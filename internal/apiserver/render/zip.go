package render

import (
	"bufio"
	"net/http"
	"sync"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/apiserver/compress"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// cacheBytes bounds the compressed blocks of lists that are kept for the next list.
	cacheBytes = 128 << 20
	// pastBytes bounds those of lists of the past, which are read again less often.
	pastBytes = 8 << 20
	// blockItems is how many items a block has on average, and blockBytes when it ends
	// at the latest.
	blockItems = 64
	blockBytes = 256 << 10
)

//nolint:gochecknoglobals // scratch memory, shared by all servers of a process
var pieces = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, compress.ChunkBytes) }}

// zipper writes a list of whole objects compressed, block by block: a block that
// an earlier list had is reused. Where blocks begin depends on the items
// alone, so that a write changes one block and leaves the others. A list that is
// too small to be compressed is written uncompressed.
type zipper struct {
	w      http.ResponseWriter
	r      *Renderer
	cache  *blockzip.Cache
	form   string
	head   []byte
	out    *bufio.Writer
	stream *blockzip.Stream // nil until the list is known to be large
	held   []*wire.Object   // items that were not written yet
	bytes  int
	comma  bool // a block was written
	ids    []uint64
}

// writeZipped is Write for a list of whole objects in compressed JSON.
func (ls *Lists) writeZipped(w http.ResponseWriter, r *Renderer, head []byte, l *wire.List) (begun bool, err error) {
	z := &zipper{w: w, r: r, cache: ls.blocksOf(r, l), head: head}
	compress.Varies(w.Header())
	w.Header().Set("Content-Type", media.JSON)
	defer z.release()
	z.form = r.zippedForm(r.resource.APIVersion(), r.resource.Kind)
	if blocks, size := ls.kept(r, l, z.form); len(blocks) > 0 && int64(len(head))+size > compress.From {
		z.begin()
		for _, b := range blocks {
			z.write(b)
		}
	} else {
		for o, err := range l.Items {
			if err != nil {
				return z.stream != nil, err
			}
			z.add(o)
		}
		if z.stream == nil {
			z.writePlain()
			return true, nil
		}
		z.flush()
	}
	z.stream.Plain([]byte(listTail))
	_ = z.stream.Close() // the client left
	_ = z.out.Flush()
	return true, nil
}

// release gives the memory of pieces back.
func (z *zipper) release() {
	if z.out != nil {
		z.out.Reset(nil)
		pieces.Put(z.out)
	}
}

// listTail ends a list and its line.
const listTail = "]}\n"

func (z *zipper) add(o *wire.Object) {
	if z.stream != nil && len(z.held) > 0 && (begins(o) || z.bytes >= blockBytes) {
		z.flush()
	}
	z.held = append(z.held, o)
	if z.stream == nil && z.r.drops { // whether a list is large depends on what is sent of it
		z.r.writeItem(o, func(p []byte) { z.bytes += len(p) })
	} else {
		z.bytes += o.Size() - z.r.itemLess()
	}
	if z.stream == nil && len(z.head)+z.bytes > compress.From {
		z.begin()
	}
}

// begins reports whether a block begins with the item; it depends on its version
// only, by Fibonacci hashing.
func begins(o *wire.Object) bool {
	return uint64(o.ResourceVersion())*0x9E3779B97F4A7C15>>32%blockItems == 0
}

// begin sends the header, and then adds the items that were held back.
func (z *zipper) begin() {
	z.w.Header().Set("Content-Encoding", "gzip")
	z.w.WriteHeader(http.StatusOK)
	z.out = pieces.Get().(*bufio.Writer) //nolint:forcetypeassert // the pool holds nothing else
	z.out.Reset(z.w)
	z.stream = blockzip.NewStream(z.out)
	z.stream.Plain(z.head)
	held := z.held
	z.held, z.bytes = nil, 0
	if len(held) > 0 {
		z.form = z.r.zippedForm(held[0].APIVersion(), held[0].Kind())
	}
	for _, o := range held {
		z.add(o)
	}
}

// zippedForm is the form of the blocks of objects that say what they are.
func (r *Renderer) zippedForm(apiVersion, kind string) string {
	form := apiVersion + " " + kind + " " + r.resource.Schemas + r.history
	if r.drops {
		form += " unmanaged"
	}
	return form
}

// flush writes the held items as one block; a comma separates blocks.
func (z *zipper) flush() {
	z.ids = z.ids[:0]
	for _, o := range z.held {
		z.ids = append(z.ids, o.Key().Version(o.ResourceVersion()))
	}
	block := z.cache.Block(blockzip.Parts{Form: z.form, Items: z.ids}, func() *blockzip.Block {
		return blockzip.Compress(z.writeHeld)
	})
	z.write(block)
	clear(z.held)
	z.held, z.bytes = z.held[:0], 0
}

// write writes a block.
func (z *zipper) write(b *blockzip.Block) {
	if z.comma {
		z.stream.Plain([]byte{','})
	}
	z.stream.Block(b)
	z.comma = true
}

func (z *zipper) writeHeld(write func([]byte)) {
	between := []byte("{")
	for _, o := range z.held {
		write(between)
		z.r.writeItem(o, write)
		between = []byte(",{")
	}
}

// writePlain answers with a small list.
func (z *zipper) writePlain() {
	body := z.head
	z.writeHeld(func(p []byte) { body = append(body, p...) })
	z.w.WriteHeader(http.StatusOK)
	_, _ = z.w.Write(append(body, listTail...)) // the client left
}
