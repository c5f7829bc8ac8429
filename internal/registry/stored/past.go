package stored

import (
	"context"
	"iter"
	"strings"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// maxPage is how many keys one read of a past state scans.
const maxPage = 512

// Past is the state of a resource at a past revision. It holds no history: it reads
// everything from the store when needed, and expires with it.
type Past struct {
	resource *Resource
	rv       kube.ResourceVersion
	now      *watchcache.Snapshot
	limit    int64
}

// Past returns the resource at rv for a list of at most limit objects, 0 for all.
// Objects that now has in the same version are taken from now, and not read.
func (r *Resource) Past(rv kube.ResourceVersion, now *watchcache.Snapshot, limit int64) *Past {
	return &Past{resource: r, rv: rv, now: now, limit: limit}
}

// RV returns the resourceVersion of the state.
func (p *Past) RV() kube.ResourceVersion { return p.rv }

// Scan yields what Snapshot.Scan yielded at that revision, and reads page by page. An error
// is the last thing that it yields; without one it has yielded everything. Errors:
// *kube.ExpiredError of a list, ctx's cause, those of the store. If only keys select, labels and selectable fields of the
// objects are read when they are asked for (wire.Lazily).
func (p *Past) Scan(ctx context.Context, start string, sel watchcache.Selection) iter.Seq2[*wire.Object, error] {
	if outlined(sel) {
		return p.scanRows(ctx, start, sel)
	}
	return func(yield func(*wire.Object, error) bool) {
		q := p.query(start, sel.Namespace)
		if key, one := p.now.Single(sel); one {
			if key < start {
				return
			}
			q.Start, q.End = p.resource.prefix+key, ""
		}
		yielded := int64(0)
		for q.Limit = p.limitOf(0, 0, sel); ; q.Limit = p.limitOf(yielded, q.Limit, sel) {
			objects, next, err := p.page(ctx, q, sel)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range objects {
				if yielded++; !yield(o, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			q.Start = next
		}
	}
}

// limitOf returns how many keys the next read scans: no more than the list can need, if each is of an object that is
// selected, and otherwise more each time.
func (p *Past) limitOf(yielded int64, before int, sel watchcache.Selection) int {
	switch left := p.limit - yielded; {
	case p.limit == 0:
		return maxPage
	case before == 0 || left > 0 && sel.Name == "" && !sel.LooksInside():
		return int(min(left, maxPage))
	default:
		return min(2*before, maxPage)
	}
}

// query selects the keys >= start, in one namespace or ("") in all.
func (p *Past) query(start, namespace string) store.Query {
	prefix := p.resource.prefix
	if namespace != "" {
		prefix += namespace + "/"
	}
	return store.Query{
		Start: max(p.resource.prefix+start, prefix), End: store.PrefixEnd(prefix), AtRevision: int64(p.rv),
	}
}

// page reads one page and returns the selected objects, and the key at which the next page
// begins, "" when there is none.
func (p *Past) page(ctx context.Context, q store.Query,
	sel watchcache.Selection,
) (objects []*wire.Object, after string, err error) {
	named := func(key string) bool { return sel.Name == "" || strings.HasSuffix(key, "/"+sel.Name) }
	q.Want = func(key string, _ int64) bool { return named(key) }
	page, err := p.read(ctx, q, func(page store.Page) error {
		decode := p.decoder(page, sel)
		objects = make([]*wire.Object, 0, len(page.Records))
		for _, record := range page.Records {
			if !named(record.Key) {
				continue
			}
			var o *wire.Object
			if record.Value == nil {
				o = p.held(record.Key, record.ModRevision)
			}
			if o == nil {
				var err error
				if o, err = decode(record); err != nil {
					return err
				}
			}
			if sel.Matches(o) {
				objects = append(objects, o)
			}
		}
		return nil
	})
	return objects, next(page), err
}

// read reads a page, without the values of objects that the cache has, and gives it to use while its values are valid:
// objects copy what they are made of.
func (p *Past) read(ctx context.Context, q store.Query, use func(page store.Page) error) (page store.Page, err error) {
	release, err := p.resource.source.acquire(ctx)
	if err != nil {
		return page, err
	}
	defer release()
	want := q.Want
	q.Want = func(key string, modRevision int64) bool {
		return want(key, modRevision) && p.held(key, modRevision) == nil
	}
	q.Buffer = p.resource.source.buffers.Get().(*store.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer p.resource.source.buffers.Put(q.Buffer)
	if page, err = p.resource.source.store.Read(ctx, q); err != nil {
		return page, p.resource.failed(err, p.rv, kube.ExpiredList)
	}
	return page, use(page)
}

// next is the key at which the page after another one begins, "" if there is none.
func next(page store.Page) string {
	if !page.More {
		return ""
	}
	return page.Records[len(page.Records)-1].Key + "\x00"
}

// decoder returns what decodes the records of a page.
func (p *Past) decoder(page store.Page, sel watchcache.Selection) func(store.Record) (*wire.Object, error) {
	r := p.resource
	if sel.LooksInside() {
		return func(record store.Record) (*wire.Object, error) {
			return r.Object(record.Key, record.Value, record.ModRevision)
		}
	}
	n, bytes := 0, 0
	for _, record := range page.Records {
		if record.Value != nil {
			n, bytes = n+1, bytes+len(record.Value)
		}
	}
	var lazily wire.Lazily
	lazily.Grow(n, bytes)
	fields := r.Fields()
	return func(record store.Record) (*wire.Object, error) {
		rv, value, err := r.version(record.Value, record.ModRevision)
		var o *wire.Object
		if err == nil {
			o, err = lazily.Object(value, rv, fields)
		}
		o, why := r.named(record.Key, record.ModRevision, o, err)
		if why != nil {
			return nil, why
		}
		return o, nil
	}
}

// held returns the cache's object if it has this revision. In a mirror nothing tells.
func (p *Past) held(key string, modRevision int64) *wire.Object {
	if p.resource.source.mirror != nil {
		return nil
	}
	o, found := p.now.Lookup(strings.TrimPrefix(key, p.resource.prefix))
	if !found || int64(o.ResourceVersion()) != modRevision {
		return nil
	}
	return o
}

// Count returns how many objects have a key >= start, in one namespace or ("") in
// all. It may scan all keys of the resource, but reads no values.
func (p *Past) Count(ctx context.Context, start, namespace string) (int64, error) {
	q := p.query(start, namespace)
	q.Count = true
	page, err := p.one(ctx, q)
	return int64(len(page.Records)) + page.Remaining, err
}

// Follows reports whether an object has a key >= start.
func (p *Past) Follows(ctx context.Context, start, namespace string) (bool, error) {
	page, err := p.one(ctx, p.query(start, namespace))
	return len(page.Records) > 0, err
}

// one reads the first key of a range.
func (p *Past) one(ctx context.Context, q store.Query) (store.Page, error) {
	q.Limit = 1
	q.Want = func(string, int64) bool { return false }
	page, err := p.resource.source.store.Read(ctx, q)
	if err != nil {
		err = p.resource.failed(err, p.rv, kube.ExpiredList)
	}
	return page, err
}
