package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/apiserver/compress"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/wire"
)

// Lists writes lists. It is safe for concurrent use.
type Lists struct {
	blocks *blockzip.Cache
	past   *blockzip.Cache // of lists of the past
	joined joined
}

// NewLists returns a writer of lists with an empty cache.
func NewLists() *Lists {
	blocks := blockzip.NewCache(cacheBytes)
	return &Lists{blocks: blocks, past: blocks.Beside(pastBytes)}
}

// CacheBytes returns how much memory the compressed blocks take, and what else is kept of lists.
func (ls *Lists) CacheBytes() int64 { return ls.blocks.Bytes() + ls.past.Bytes() + ls.joined.Bytes() }

// blocksOf returns where the blocks of a list of a resource are kept: nowhere if objects are
// converted to its version, since after a change of their definition, or of its webhook, the same
// resourceVersions have another content.
func (ls *Lists) blocksOf(r *Renderer, l *wire.List) *blockzip.Cache {
	switch {
	case r.resource.Converts():
		return nil
	case l.Past:
		return ls.past
	}
	return ls.blocks
}

// kept returns the blocks of a list whose versions are known before it is read, if all of them are in the cache, and their
// size before compression. Then the list need not be read.
func (ls *Lists) kept(r *Renderer, l *wire.List, form string) (blocks []*blockzip.Block, size int64) {
	blocks = ls.blocksOf(r, l).Blocks(blockzip.Parts{Form: form, Items: l.Versions})
	for _, b := range blocks {
		plain, _ := b.Size()
		size += plain
	}
	return blocks, size
}

// Write answers with a list. It writes the items one by one, so that a list needs the
// same memory whatever its size; only YAML and indented JSON are put together first.
// With an error the answer is not complete: begun reports whether a part of it was sent.
func (ls *Lists) Write(w http.ResponseWriter, into Form, r *Renderer, l *wire.List) (begun bool, err error) {
	if l.History != 0 {
		r.history = fmt.Sprintf(" of history %d", l.History)
	}
	if l.Reads != 0 {
		r.history += fmt.Sprintf(" read by %d", l.Reads)
	}
	if into.format == formatProtobuf {
		return ls.writeMessages(w, into, r, l)
	}
	head, err := r.listHead(l)
	if err != nil {
		return false, err
	}
	switch {
	case r.shape != shapeTable:
	case r.resource.ListRow != nil:
		r.cells = r.resource.ListRow(l.Items)
	case r.list: // see writeMessages
		r.blocks = ls.blocksOf(r, l)
	}
	if into.format == formatYAML || into.pretty {
		var whole bytes.Buffer
		if err := r.writeItems(l, head, func(b []byte) { whole.Write(b) }); err != nil {
			return false, err
		}
		Write(w, into, http.StatusOK, whole.Bytes())
		return true, nil
	}
	if into.gzip && r.shape == shapeObject && r.list { // see writeMessages
		return ls.writeZipped(w, r, head, l)
	}
	if !into.gzip && ls.writeJoined(w, r, head, l) {
		return true, nil
	}
	out := compress.New(w, into.gzip)
	defer out.Release()
	w.Header().Set("Content-Type", media.JSON)
	write, ended := ls.keeping(r, l, out.Write)
	whole := false
	defer func() { ended(whole) }() // also after a panic
	if err := r.writeItems(l, head, write); err != nil {
		return out.Begun(), err
	}
	write([]byte("\n"))
	whole = true
	out.Close()
	return true, nil
}

// Write answers with a body in a form, which may be in parts: with one of protobuf, as Object and
// Status make it, or else with one of JSON, without a newline at its end.
func Write(w http.ResponseWriter, into Form, code int, body ...[]byte) {
	contentType := media.JSON
	switch {
	case into.format == formatProtobuf:
		contentType = media.Protobuf
	case into.format == formatYAML:
		if converted, err := yaml.JSONToYAML(slices.Concat(body...)); err == nil {
			contentType, body = media.YAML, [][]byte{converted}
		}
	case into.pretty:
		var indented bytes.Buffer
		if json.Indent(&indented, slices.Concat(body...), "", "  ") == nil {
			body = [][]byte{indented.Bytes()}
		}
	}
	out := compress.New(w, into.gzip)
	defer out.Release()
	w.Header().Set("Content-Type", contentType)
	out.Code = code
	for _, part := range body {
		out.Write(part)
	}
	if contentType == media.JSON {
		out.Write([]byte("\n"))
	}
	out.Close()
}

// List returns a list in the form, which is plain JSON (see Plain).
func (r *Renderer) List(l *wire.List) ([]byte, error) {
	head, err := r.listHead(l)
	if err != nil {
		return nil, err
	}
	if r.shape == shapeTable && r.resource.ListRow != nil {
		r.cells = r.resource.ListRow(l.Items)
	}
	var whole bytes.Buffer
	if err := r.writeItems(l, head, func(b []byte) { whole.Write(b) }); err != nil {
		return nil, err
	}
	return whole.Bytes(), nil
}

// listHead returns a list up to the bracket that opens its items.
func (r *Renderer) listHead(l *wire.List) ([]byte, error) {
	meta := listMeta(l)
	if r.shape == shapeTable {
		return r.tableHead(meta)
	}
	metadata, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	kind, apiVersion := r.resource.ListKind, r.resource.APIVersion()
	if r.shape == shapePartial {
		kind, apiVersion = "PartialObjectMetadataList", r.apiVersion()
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind, apiVersion, metadata), nil
}

func listMeta(l *wire.List) metav1.ListMeta {
	meta := metav1.ListMeta{ResourceVersion: l.ResourceVersion.String(), Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Shard != "" {
		meta.ShardInfo = &metav1.ShardInfo{Selector: l.Shard}
	}
	return meta
}

// writeItems writes the list piece by piece.
func (r *Renderer) writeItems(l *wire.List, head []byte, write func([]byte)) error {
	write(head)
	if r.shape == shapeTable {
		if err := r.writeRows(l, write); err != nil {
			return err
		}
		write([]byte("]}"))
		return nil
	}
	var between []byte
	next := []byte{','}
	if r.shape == shapeObject {
		between, next = []byte("{"), []byte(",{")
	}
	for o, err := range l.Items {
		if err != nil {
			return err
		}
		write(between)
		if r.shape == shapePartial {
			r.writePartial(o, write)
		} else {
			r.writeItem(o, write)
		}
		between = next
	}
	write([]byte("]}"))
	return nil
}

// writeItem writes an object as lists have it, without the brace that opens it. The items
// of built-in kinds do not say what they are, since the list does (upstream decodes
// them into Go structs with an empty TypeMeta); custom resources do.
func (r *Renderer) writeItem(o *wire.Object, write func([]byte)) {
	o = r.seen(o)
	if r.resource.Custom {
		r.parts = o.Parts(r.parts[:0])
		r.parts[0] = r.parts[0][1:]
	} else {
		r.parts = o.UntypedParts(r.parts[:0])
	}
	r.writeParts(write)
}

// writeParts writes the parts of an object, and drops them: the renderer of a watch that waits
// holds no object.
func (r *Renderer) writeParts(write func([]byte)) {
	for _, p := range r.parts {
		write(p)
	}
	clear(r.parts)
}

// itemLess is by how much the items are shorter than the objects.
func (r *Renderer) itemLess() int {
	if r.resource.Custom {
		return 0
	}
	return len(`"apiVersion":"","kind":"",`) + len(r.resource.APIVersion()) + len(r.resource.Kind)
}
