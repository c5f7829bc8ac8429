package stored

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// nextRow reads, without their values, the keys that outlines are kept of together.
func (p *Past) nextRow(ctx context.Context, q store.Query) (page store.Page, id row, err error) {
	q.Want = func(string, int64) bool { return false }
	q.Limit = maxPage
	if p.limit > 0 {
		q.Limit = int(min(p.limit, maxPage)) // if all are selected, a page of the list is one
	}
	page, err = p.resource.source.store.Read(ctx, q)
	if err != nil {
		return page, id, p.resource.failed(err, p.rv, kube.ExpiredList)
	}
	return page, p.resource.source.outlines.row(page, p.resource.fields.Load()), nil
}

// scanRows is Scan for a selection of which outlines say what it selects: where they are known, only selected
// values are read, and otherwise they are made.
func (p *Past) scanRows(ctx context.Context, start string, sel watchcache.Selection) iter.Seq2[*wire.Object, error] {
	return func(yield func(*wire.Object, error) bool) {
		yielded, limit := int64(0), 0
		for q := p.query(start, sel.Namespace); ; {
			page, id, err := p.nextRow(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			r := rowReader{past: p, sel: sel, id: id, page: page, picked: p.resource.pick(id, page, sel)}
			for r.at < len(page.Records) {
				limit = p.limitOf(yielded, limit, sel)
				objects, err := r.next(ctx, q, limit)
				if err != nil {
					yield(nil, err)
					return
				}
				for _, o := range objects {
					if yielded++; !yield(o, nil) {
						r.keep()
						return
					}
				}
			}
			r.keep()
			if q.Start = next(page); q.Start == "" {
				return
			}
		}
	}
}

// rowReader reads the objects of a row.
type rowReader struct {
	past   *Past
	sel    watchcache.Selection
	id     row
	page   store.Page // the row, without values
	picked []bool     // which of its first records are selected
	at     int        // how many were read
	made   []byte     // outlines of the records from len(picked) on that were read
}

// next reads at most limit more records, and returns the selected objects of them.
func (r *rowReader) next(ctx context.Context, q store.Query, limit int) (objects []*wire.Object, err error) {
	if r.at < len(r.picked) {
		if !slices.Contains(r.picked[r.at:], true) {
			r.at = len(r.picked)
			return nil, nil
		}
		for !r.picked[r.at] {
			r.at++
		}
	}
	records := r.page.Records[r.at:]
	q.Start, q.Limit = records[0].Key, min(limit, len(records))
	q.Want = func(key string, _ int64) bool {
		if len(r.picked) == 0 {
			return true
		}
		at, found := slices.BinarySearchFunc(r.page.Records, key, func(record store.Record, key string) int {
			return cmp.Compare(record.Key, key)
		})
		return at >= len(r.picked) || found && r.picked[at]
	}
	_, err = r.past.read(ctx, q, func(page store.Page) error {
		for _, record := range page.Records {
			o, err := r.object(record)
			if err != nil {
				return err
			}
			if o != nil {
				objects = append(objects, o)
			}
			r.at++
		}
		return nil
	})
	return objects, err
}

// object returns the object of a record if it is selected, otherwise nil.
func (r *rowReader) object(record store.Record) (*wire.Object, error) {
	known := r.at < len(r.picked)
	if known && !r.picked[r.at] {
		return nil, nil
	}
	o := (*wire.Object)(nil)
	if record.Value == nil {
		o = r.past.held(record.Key, record.ModRevision)
	}
	if o != nil {
		if !known {
			r.made = wire.AppendOutline(r.made, o)
		}
		if known || r.sel.Matches(o) {
			return o, nil
		}
		return nil, nil
	}
	rv, o, err := r.past.resource.unstamped(record)
	if err != nil {
		return nil, err
	}
	if !known {
		r.made = wire.AppendOutline(r.made, o)
		if !r.sel.Matches(o) {
			return nil, nil
		}
	}
	return o.WithResourceVersion(rv), nil
}

// keep keeps the outlines that were made.
func (r *rowReader) keep() {
	if n := r.at; n > len(r.picked) {
		outlines := r.past.resource.source.outlines
		before := outlines.get(r.id)
		if before.n == len(r.picked) {
			outlines.put(r.id, outline{text: before.text + string(r.made), n: n})
		}
	}
}

// unstamped reads the object of a record over its value.
func (r *Resource) unstamped(record store.Record) (kube.ResourceVersion, *wire.Object, error) {
	rv, value, err := r.version(record.Value, record.ModRevision)
	var o *wire.Object
	if err == nil {
		o, err = wire.Unstamped(value, r.Fields())
	}
	o, why := r.named(record.Key, record.ModRevision, o, err)
	if why != nil {
		return 0, nil, why
	}
	return rv, o, nil
}
