package stored

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// loadPage is how many records are read at once for Load.
const loadPage = 1000

// Load returns all objects at a revision, in the order of their keys. It reads and decodes on
// all processors. Errors: *store.CompactedError and others of the
// store, ctx's cause.
func (r *Resource) Load(ctx context.Context, revision int64) ([]*wire.Object, error) {
	objects, _, err := r.load(ctx, store.Query{AtRevision: revision})
	return objects, err
}

// LoadReadable is Load that leaves out the objects whose values cannot be read. It returns why not.
func (r *Resource) LoadReadable(ctx context.Context, revision int64) ([]*wire.Object, []*store.UnreadableError, error) {
	return r.load(ctx, store.Query{AtRevision: revision, Unreadable: true})
}

func (r *Resource) load(ctx context.Context, q store.Query) ([]*wire.Object, []*store.UnreadableError, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q.Start, q.End, q.Limit = r.prefix, store.PrefixEnd(r.prefix), loadPage
	l := &loading{resource: r, next: make(chan store.Query, 1)}
	l.next <- q
	var wg sync.WaitGroup
	// They are load's, and end with the last page or the first error.
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			if err := l.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("read %s at revision %d: %w", r.GR, q.AtRevision, context.Cause(ctx))
	}
	count := 0
	for _, page := range l.pages {
		count += len(page.objects)
	}
	objects := make([]*wire.Object, 0, count)
	var unreadable []*store.UnreadableError
	for _, page := range l.pages {
		objects = append(objects, page.objects...)
		unreadable = append(unreadable, page.unreadable...)
	}
	return objects, unreadable, nil
}

// Created returns at which revision each object was created, by the objects' keys, as
// of a revision. It reads no values.
func (r *Resource) Created(ctx context.Context, revision int64) (map[string]int64, error) {
	page, err := r.source.store.Read(ctx, store.Query{
		Start: r.prefix, End: store.PrefixEnd(r.prefix), AtRevision: revision, Want: func(string, int64) bool { return false },
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of %s at revision %d: %w", r.GR, revision, err)
	}
	created := make(map[string]int64, len(page.Records))
	for _, record := range page.Records {
		created[strings.TrimPrefix(record.Key, r.prefix)] = record.CreateRevision
	}
	return created, nil
}

// loading is a Load under way.
type loading struct {
	resource *Resource
	// next holds the query of the next page; the goroutine that receives it finds out where that page ends
	// and may change pages. It is closed after the last page.
	next  chan store.Query
	pages []*loadedPage
}

// loadedPage is a page of a Load. The goroutine that has found where it ends fills it.
type loadedPage struct {
	objects    []*wire.Object
	unreadable []*store.UnreadableError
}

// run reads and decodes one page after the other, while other goroutines do so with others. What is read from etcd's
// form is decoded as it is read, so that this must not be done in turn.
func (l *loading) run(ctx context.Context) error {
	var values store.Buffer // objects copy what they are made of
	for {
		var q store.Query
		var more bool
		select {
		case q, more = <-l.next:
		case <-ctx.Done():
		}
		if !more {
			return nil
		}
		q, page, err := l.begin(ctx, q)
		if err != nil {
			return err
		}
		q.Buffer = &values
		if err := page.fill(ctx, l.resource, q); err != nil {
			return err
		}
	}
}

// begin returns the query of one page, and lets another goroutine begin with the page behind it. It reads only keys.
func (l *loading) begin(ctx context.Context, q store.Query) (store.Query, *loadedPage, error) {
	keys := q
	keys.Want = func(string, int64) bool { return false }
	found, err := l.resource.source.store.Read(ctx, keys)
	if err != nil {
		return q, nil, err
	}
	page := &loadedPage{objects: make([]*wire.Object, 0, len(found.Records))}
	l.pages = append(l.pages, page)
	if !found.More {
		close(l.next)
		return q, page, nil
	}
	next := q
	next.Start = after(found)
	q.End = next.Start
	l.next <- next
	return q, page, nil
}

// after returns where the page behind one begins.
func after(page store.Page) string { return page.Records[len(page.Records)-1].Key + "\x00" }

// fill reads the records of a page, in several steps if they are large, and decodes them.
func (p *loadedPage) fill(ctx context.Context, r *Resource, q store.Query) error {
	for {
		some, err := r.source.store.Read(ctx, q)
		if err != nil {
			return err
		}
		for _, record := range some.Records {
			p.add(r, record)
			if len(p.unreadable) > 0 && !q.Unreadable {
				return p.unreadable[0]
			}
		}
		if !some.More {
			return nil
		}
		q.Start = after(some)
	}
}

// add decodes a record, or notes why it cannot be.
func (p *loadedPage) add(r *Resource, record store.Record) {
	var o *wire.Object
	why := record.Unreadable
	if why == nil {
		o, why = r.object(r.Fields(), record.Key, record.Value, record.ModRevision)
	}
	if why != nil {
		p.unreadable = append(p.unreadable, why)
		return
	}
	p.objects = append(p.objects, o)
}
