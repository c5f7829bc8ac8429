package render

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// The head of a row is its JSON up to the value of "object", with a mark for each age: a
// zero byte, which JSON does not have, and the seconds and nanoseconds of the time since
// which it counts. So it says the same whenever it is shown, and is kept in blocks, as the
// items of lists in other forms are.
const (
	ageMark  = 0
	ageBytes = 1 + 8 + 4
)

// appendHead appends the head of the row of an object.
func (r *Renderer) appendHead(to []byte, o *wire.Object) ([]byte, error) {
	to = append(to, `{"cells":[`...)
	for i, cell := range r.cells(o) {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = appendCell(to, cell); err != nil {
			return nil, fmt.Errorf("encode cells of %s: %w", o.Key(), err)
		}
	}
	to = append(to, "],"...)
	conditions, err := r.conditions(o)
	if err != nil {
		return nil, err
	}
	return append(append(to, conditions...), `"object":`...), nil
}

// appendCell appends a cell as encoding/json has it, or with a mark.
func appendCell(to []byte, cell any) ([]byte, error) {
	switch c := cell.(type) {
	case nil:
		return append(to, "null"...), nil
	case string:
		return append(appendText(append(to, '"'), c), '"'), nil
	case int64:
		return strconv.AppendInt(to, c, 10), nil
	case bool:
		return strconv.AppendBool(to, c), nil
	case kinds.Ago:
		to = append(appendText(append(to, '"'), c.Before), ageMark)
		to = binary.BigEndian.AppendUint64(to, uint64(c.Then.Unix()))
		to = binary.BigEndian.AppendUint32(to, uint32(c.Then.Nanosecond()))
		return append(appendText(to, c.After), '"'), nil
	}
	encoded, err := json.Marshal(cell)
	return append(to, encoded...), err
}

// appendText appends a string as encoding/json has it, without quotes.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic("render: a string that cannot be encoded: " + err.Error()) // it does not fail for strings
			}
			return append(to, quoted[1:len(quoted)-1]...)
		}
	}
	return append(to, text...)
}

// age returns the text of a mark, without quotes.
func (r *Renderer) age(mark []byte) []byte {
	if bytes.Equal(mark, r.aged[:]) && r.agedAt.Equal(r.now) {
		return r.ageText // of objects that were created in the same second
	}
	then := time.Unix(int64(binary.BigEndian.Uint64(mark[1:])), int64(binary.BigEndian.Uint32(mark[1+8:])))
	r.ageText = appendText(r.ageText[:0], kinds.Ago{Then: then}.Age(r.now))
	r.agedAt = r.now
	copy(r.aged[:], mark)
	return r.ageText
}

// writeRow writes the row of an object with its head.
func (r *Renderer) writeRow(o *wire.Object, head []byte, write func([]byte)) {
	for {
		at := bytes.IndexByte(head, ageMark)
		if at < 0 {
			break
		}
		write(head[:at])
		write(r.age(head[at : at+ageBytes]))
		head = head[at+ageBytes:]
	}
	write(head)
	switch r.include {
	case metav1.IncludeObject:
		r.parts = r.seen(o).Parts(r.parts[:0])
		r.writeParts(write)
	case metav1.IncludeMetadata:
		r.writePartial(o, write)
	case metav1.IncludeNone:
		write([]byte("null"))
	}
	write(r.end)
}

// row returns one row of a table.
func (r *Renderer) row(o *wire.Object) ([]byte, error) {
	head, err := r.appendHead(nil, r.seen(o))
	if err != nil {
		return nil, err
	}
	var row []byte
	r.writeRow(o, head, func(p []byte) { row = append(row, p...) })
	return row, nil
}

// writeRows writes the rows of a list, with the heads of blocks of items that an earlier list
// had. Where a block ends depends on the items alone; see zipper.
func (r *Renderer) writeRows(l *wire.List, write func([]byte)) error {
	var held []*wire.Object
	size, comma, separator := 0, false, []byte(",")
	flush := func() error {
		heads, err := r.heads(held)
		if err != nil {
			return err
		}
		for _, o := range held {
			if comma {
				write(separator)
			}
			comma = true
			length, n := binary.Uvarint(heads)
			heads = heads[n:]
			r.writeRow(o, heads[:length], write)
			heads = heads[length:]
		}
		clear(held)
		held, size = held[:0], 0
		return nil
	}
	for o, err := range l.Items {
		if err != nil {
			return err
		}
		if len(held) > 0 && (begins(o) || size >= blockBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		held = append(held, o)
		size += o.Size()
	}
	return flush()
}

// heads returns the heads of the rows of some objects, each after its length.
func (r *Renderer) heads(objects []*wire.Object) ([]byte, error) {
	if r.blocks == nil || len(objects) == 0 {
		return r.makeHeads(objects)
	}
	if r.headsForm == "" {
		r.headsForm = fmt.Sprintf("rows %s %t %s %s%s", r.resource.GVR(), r.drops, r.resource.Rows, r.resource.Schemas, r.history)
	}
	r.ids = r.ids[:0]
	for _, o := range objects {
		r.ids = append(r.ids, o.Key().Version(o.ResourceVersion()))
	}
	var failed error
	b := r.blocks.Block(blockzip.Parts{Form: r.headsForm, Items: r.ids}, func() *blockzip.Block {
		var heads []byte
		if heads, failed = r.makeHeads(objects); failed != nil {
			return nil
		}
		return blockzip.Plain(slices.Clip(heads))
	})
	if failed != nil {
		return nil, failed
	}
	return b.Bytes(), nil
}

func (r *Renderer) makeHeads(objects []*wire.Object) (heads []byte, err error) {
	var head []byte
	for _, o := range objects {
		if head, err = r.appendHead(head[:0], r.seen(o)); err != nil {
			return nil, err
		}
		heads = append(binary.AppendUvarint(heads, uint64(len(head))), head...)
	}
	return heads, nil
}
