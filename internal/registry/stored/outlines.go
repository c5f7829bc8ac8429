package stored

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// outlinesBytes bounds the outlines that are kept, for all resources together: of some 20 000 objects. rowBytes is what one of
// a row takes beside its text: a row may have one object only.
const (
	outlinesBytes = 4 << 20
	rowBytes      = 160
)

// outlines are what selectors see of objects of the past, of consecutive keys as they were at a revision (a row). Whoever
// selects again from the same state, also by something else, reads the selected values alone. They never become
// stale: what a key had at a revision does not change, and whether it can still be read says the store's index before.
type outlines struct {
	seed maphash.Seed

	// mu guards what follows.
	mu    sync.Mutex
	known map[row]outline
	order []row // oldest first
	bytes int
}

// row identifies consecutive keys with their revisions, by a hash of all of them.
type row struct {
	hash   uint64
	length int
	fields *[]wire.FieldPath // stands for the resource, too
}

// outline is that of the first objects of a row.
type outline struct {
	text string
	n    int
}

func newOutlines() *outlines { return &outlines{seed: maphash.MakeSeed(), known: map[row]outline{}} }

// row returns what identifies the records of a page.
func (l *outlines) row(page store.Page, fields *[]wire.FieldPath) row {
	var h maphash.Hash
	h.SetSeed(l.seed)
	var number [8]byte
	write := func(n uint64) {
		binary.LittleEndian.PutUint64(number[:], n)
		_, _ = h.Write(number[:])
	}
	write(page.Generation)
	for _, record := range page.Records {
		_, _ = h.WriteString(record.Key)
		write(uint64(record.ModRevision))
	}
	return row{hash: h.Sum64(), length: len(page.Records), fields: fields}
}

func (l *outlines) get(r row) outline {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[r]
}

// put keeps an outline, unless a longer one is kept, and drops the oldest ones.
func (l *outlines) put(r row, o outline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	former, is := l.known[r]
	if o.n <= former.n {
		return
	}
	if !is {
		l.order = append(l.order, r)
		l.bytes += rowBytes
	}
	l.known[r] = o
	l.bytes += len(o.text) - len(former.text)
	for l.bytes > outlinesBytes {
		oldest := l.order[0]
		l.bytes -= rowBytes + len(l.known[oldest].text)
		delete(l.known, oldest)
		l.order = l.order[1:]
	}
}

// outlined reports whether outlines say what a selection selects: it looks into nothing but labels and fields, and
// not into fields of read forms, which change with the schema. Of those of one name few values are read anyway.
func outlined(sel watchcache.Selection) bool {
	return sel.LooksInside() && sel.Name == "" && sel.Shard == nil && (sel.Fields == nil || sel.Fields.Empty() || sel.Read == nil)
}

// pick returns which of the first records of a row are selected, as far as that is known.
func (r *Resource) pick(id row, page store.Page, sel watchcache.Selection) (picked []bool) {
	known := r.source.outlines.get(id)
	picked = make([]bool, known.n)
	each := wire.NewOutlines(known.text, *id.fields)
	for i := range picked {
		picked[i] = sel.Matches(each.Next(r.KeyOf(page.Records[i].Key)))
	}
	return picked
}
