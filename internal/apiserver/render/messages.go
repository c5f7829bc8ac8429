package render

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/apiserver/compress"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/protobuf"
	"github.com/gapless-io/gapless/internal/wire"
)

// messageList writes a list in protobuf, whose size comes before its items. It goes through
// the items block by block, as zipper does, and makes the block of each or finds it in the
// cache; then it knows the size, and writes the blocks. It does not keep more than heldMessages of them meanwhile: a
// block that the cache does not keep either may be freed, and is made again.
type messageList struct {
	r     *Renderer
	cache *blockzip.Cache // nil: blocks are not kept
	form  string          // of blocks
	zip   bool            // blocks are compressed

	blocks []listBlock
	kept   []*blockzip.Block // the first ones
	size   int64             // of the items
	held   []*wire.Object
	bytes  int // of held, as JSON
	ids    []uint64

	w      http.ResponseWriter
	plain  *compress.Writer // nil when the list is compressed
	out    *bufio.Writer    // nil when it is not
	stream *blockzip.Stream
	sent   int64 // of size
}

// heldMessages is how many bytes of a list are kept until its size is known, as they are when they are not compressed.
const heldMessages = 4 << 20

// listBlock is a block of a list and the number of its items.
type listBlock struct {
	block weak.Pointer[blockzip.Block]
	items int
}

// errChanged says that a list was not the same when it was read again.
var errChanged = errors.New("the list in protobuf has another size than was counted")

// writeMessages is Write for a list in protobuf.
func (ls *Lists) writeMessages(w http.ResponseWriter, into Form, r *Renderer, l *wire.List) (begun bool, err error) {
	metadata := listMeta(l)
	meta, err := metadata.Marshal()
	if err != nil {
		return false, fmt.Errorf("encode list metadata as protobuf: %w", err)
	}
	kind := metav1.TypeMeta{APIVersion: r.resource.APIVersion(), Kind: r.resource.ListKind}
	if r.shape == shapePartial {
		kind = metav1.TypeMeta{APIVersion: r.apiVersion(), Kind: "PartialObjectMetadataList"}
	}
	m := &messageList{r: r, w: w}
	if r.list { // a write may answer with content that its resourceVersion never had
		m.cache = ls.blocksOf(r, l)
	}
	if !m.find(ls, l, into.gzip) {
		if err := m.count(l, into.gzip); err != nil {
			return false, err
		}
	}
	head := protobuf.List(kind, meta, int(m.size))
	compress.Varies(w.Header())
	w.Header().Set("Content-Type", media.Protobuf)
	m.begin(head)
	defer m.release()
	if err := m.write(l); err != nil {
		return true, err
	}
	m.end()
	return true, nil
}

// find finds the blocks of a list in the cache, and reports whether it has all of them.
func (m *messageList) find(ls *Lists, l *wire.List, gzip bool) bool {
	if m.cache == nil {
		return false
	}
	blocks, size := ls.kept(m.r, l, m.blockForm(gzip))
	if len(blocks) == 0 || gzip && size <= compress.From { // whether a small list is compressed depends on its items
		return false
	}
	m.zip, m.kept, m.size = gzip, blocks, size
	for _, b := range blocks {
		m.blocks = append(m.blocks, listBlock{block: weak.Make(b)})
	}
	return true
}

// blockForm is the form of blocks.
func (m *messageList) blockForm(zip bool) string {
	kind := m.r.typeMeta()
	form := "protobuf " + kind.APIVersion + " " + kind.Kind + m.r.history
	if m.r.shape == shapePartial { // those of other resources say the same
		form += " of " + m.r.resource.GVR().String() + " " + m.r.resource.Schemas
	}
	if zip {
		form += " gzip"
	}
	if m.r.drops {
		form += " unmanaged"
	}
	return form
}

// count makes the blocks of a list and adds up their sizes. A small list is not compressed.
func (m *messageList) count(l *wire.List, gzip bool) error {
	var small [][]*wire.Object // the groups of a list that may be small
	all := 0                   // bytes of it
	each := func(group []*wire.Object, bytes int) error {
		if all += bytes; gzip && !m.zip && all <= compress.From {
			small = append(small, append([]*wire.Object(nil), group...))
			return nil
		}
		m.zip = gzip
		if err := m.countGroups(small); err != nil {
			return err
		}
		small = nil
		return m.countGroup(group)
	}
	if err := m.group(l, 0, each); err != nil {
		return err
	}
	return m.countGroups(small)
}

func (m *messageList) countGroups(groups [][]*wire.Object) error {
	for _, g := range groups {
		if err := m.countGroup(g); err != nil {
			return err
		}
	}
	return nil
}

func (m *messageList) countGroup(group []*wire.Object) error {
	b, err := m.block(group)
	if err != nil {
		return err
	}
	size, _ := b.Size()
	if m.size += size; m.size <= heldMessages {
		m.kept = append(m.kept, b)
	}
	m.blocks = append(m.blocks, listBlock{weak.Make(b), len(group)})
	return nil
}

// group calls each for the items of every block, behind the first skipped items. Where a
// block ends depends on its items alone; see zipper.
func (m *messageList) group(l *wire.List, skipped int, each func(group []*wire.Object, bytes int) error) error {
	flush := func() error {
		err := each(m.held, m.bytes)
		clear(m.held)
		m.held, m.bytes = m.held[:0], 0
		return err
	}
	m.held, m.bytes = m.held[:0], 0
	for o, err := range l.Items {
		if err != nil {
			return err
		}
		if skipped > 0 {
			skipped--
			continue
		}
		if len(m.held) > 0 && (begins(o) || m.bytes >= blockBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		m.held = append(m.held, o)
		m.bytes += o.Size()
	}
	if len(m.held) > 0 {
		return flush()
	}
	return nil
}

// block returns the block of some items, which are not empty.
func (m *messageList) block(group []*wire.Object) (*blockzip.Block, error) {
	var failed error
	compressed := func() *blockzip.Block {
		var items []byte
		if items, failed = m.encode(group); failed != nil {
			return nil
		}
		if m.zip {
			return blockzip.Compress(func(write func([]byte)) { write(items) })
		}
		return blockzip.Plain(items)
	}
	if m.cache == nil {
		b := compressed()
		return b, failed
	}
	if m.form == "" {
		m.form = m.blockForm(m.zip)
	}
	m.ids = m.ids[:0]
	for _, o := range group {
		m.ids = append(m.ids, o.Key().Version(o.ResourceVersion()))
	}
	b := m.cache.Block(blockzip.Parts{Form: m.form, Items: m.ids}, compressed)
	return b, failed
}

// encode returns items as a list has them.
func (m *messageList) encode(group []*wire.Object) ([]byte, error) {
	var items []byte
	for i, o := range group {
		message, err := m.r.message(o)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			items = make([]byte, 0, min(len(group)*(len(message)+8), blockBytes))
		}
		items = protobuf.AppendItem(items, message)
	}
	return items, nil
}

// begin sends the header of the answer and what precedes the items.
func (m *messageList) begin(head []byte) {
	if !m.zip {
		m.plain = compress.New(m.w, false)
		m.plain.Length(int64(len(head)+len(protobuf.Tail())) + m.size)
		m.plain.Write(head)
		return
	}
	m.w.Header().Set("Content-Encoding", "gzip")
	m.w.WriteHeader(http.StatusOK)
	m.out = pieces.Get().(*bufio.Writer) //nolint:forcetypeassert // the pool holds nothing else
	m.out.Reset(m.w)
	m.stream = blockzip.NewStream(m.out)
	m.stream.Plain(head)
}

// write writes all blocks. From the first that is not in memory any more on it reads the
// items again.
func (m *messageList) write(l *wire.List) error {
	items := 0
	for _, known := range m.blocks {
		b := known.block.Value()
		if b == nil {
			break
		}
		if err := m.send(b); err != nil {
			return err
		}
		items += known.items
	}
	if m.sent < m.size {
		err := m.group(l, items, func(group []*wire.Object, _ int) error {
			b, err := m.block(group)
			if err != nil {
				return err
			}
			return m.send(b)
		})
		if err != nil {
			return err
		}
	}
	if m.sent != m.size {
		return errChanged
	}
	return nil
}

func (m *messageList) send(b *blockzip.Block) error {
	size, _ := b.Size()
	if m.sent += size; m.sent > m.size {
		return errChanged
	}
	if m.zip {
		m.stream.Block(b)
	} else {
		m.plain.Write(b.Bytes())
	}
	return nil
}

// end writes what follows the items.
func (m *messageList) end() {
	if !m.zip {
		m.plain.Write(protobuf.Tail())
		m.plain.Close()
		return
	}
	m.stream.Plain(protobuf.Tail())
	_ = m.stream.Close() // the client left
	_ = m.out.Flush()
}

// release gives scratch memory back.
func (m *messageList) release() {
	if m.plain != nil {
		m.plain.Release()
	}
	if m.out != nil {
		m.out.Reset(nil)
		pieces.Put(m.out)
	}
}
