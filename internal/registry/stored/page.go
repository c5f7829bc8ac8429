package stored

import (
	"context"
	"iter"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// heldBytes is how many bytes of a page are held until its end is known, and heldOfPast of one that is read from the store:
// a thousand objects of 8 KB. The items of a larger page are read again when they are ranged over.
const (
	heldBytes  = 1 << 20
	heldOfPast = 8 << 20
)

// maxKnown is how many versions of objects of a list are held at most before it is read: 128 KiB.
const maxKnown = 16 << 10

// Page is the beginning of a list. It is used by one goroutine at a time.
type Page struct {
	Count int64
	Last  string // the key of its last object
	// Versions are those of wire.List, if they are known before the objects are read; otherwise nil.
	Versions []uint64
	// Reads is that of wire.List.
	Reads uint64

	held []*wire.Object // nil when it is larger than what is held, or was not read
}

// FirstOf reads the first objects of a list, at most limit, and holds a bounded number of bytes of them, fewer of those that
// memory has.
func FirstOf(all iter.Seq2[*wire.Object, error], limit int64, past bool) (*Page, error) {
	most := heldBytes
	if past {
		most = heldOfPast
	}
	p, bytes := &Page{held: []*wire.Object{}}, 0
	for o, err := range all {
		if err != nil {
			return nil, err
		}
		if bytes += o.Size(); bytes > most {
			p.held = nil
		}
		if p.held != nil {
			p.held = append(p.held, o)
		}
		if p.Count++; p.Count == limit {
			p.Last = o.Key().String()
			break
		}
	}
	return p, nil
}

// Items yields the objects of the page, which are the first ones of all. Those of a page that was not read are read before
// the first one is yielded, so that an error is the first thing; it is what failed makes of it.
func (p *Page) Items(all iter.Seq2[*wire.Object, error], failed func(error) error) iter.Seq2[*wire.Object, error] {
	read := p
	if p.Versions != nil {
		read = nil
	}
	return func(yield func(*wire.Object, error) bool) {
		if read == nil {
			now, err := FirstOf(all, p.Count, true)
			if err != nil {
				yield(nil, failed(err))
				return
			}
			read = now
		}
		read.items(all)(yield)
	}
}

func (p *Page) items(all iter.Seq2[*wire.Object, error]) iter.Seq2[*wire.Object, error] {
	return func(yield func(*wire.Object, error) bool) {
		for _, o := range p.held {
			if !yield(o, nil) {
				return
			}
		}
		if p.held != nil || p.Count == 0 {
			return
		}
		left := p.Count
		for o, err := range all {
			if left--; !yield(o, err) || err != nil || left == 0 {
				return
			}
		}
	}
}

// Known returns what Scan yields, up to the limit of the list, without reading it: the index has it. It returns nil if
// that is not possible: if names are selected, or what is not known of the objects; for a mirror, which has other revisions
// than its objects; and for very many objects. Errors: those of Scan.
func (p *Past) Known(ctx context.Context, start string, sel watchcache.Selection) (*Page, error) {
	inside := sel.LooksInside()
	if p.resource.source.mirror != nil || sel.Name != "" || inside && !outlined(sel) || p.limit > maxKnown {
		return nil, nil
	}
	known := &Page{Versions: []uint64{}}
	for q := p.query(start, sel.Namespace); ; {
		page, id, err := p.nextRow(ctx, q)
		if err != nil {
			return nil, err
		}
		known.Reads = max(known.Reads, page.Generation)
		records := page.Records
		var picked []bool
		if inside {
			picked = p.resource.pick(id, page, sel)
			records = records[:len(picked)]
		}
		for i, record := range records {
			if inside && !picked[i] {
				continue
			}
			rv := kube.ResourceVersion(record.ModRevision)
			known.Versions = append(known.Versions, p.resource.KeyOf(record.Key).Version(rv))
			if known.Count++; known.Count == p.limit {
				known.Last = record.Key[len(p.resource.prefix):]
				return known, nil
			}
		}
		if len(records) < len(page.Records) || known.Count > maxKnown {
			return nil, nil
		}
		if q.Start = next(page); q.Start == "" {
			return known, nil
		}
	}
}
