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

// Load returns all objects at a revision, in the order of their keys. It decodes on
// all processors while it reads. Errors: *store.CompactedError and others of the
// store, ctx's cause.
func (r *Resource) Load(ctx context.Context, revision int64) ([]*wire.Object, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &loading{resource: r, next: make(chan store.Query, 1)}
	l.next <- store.Query{Start: r.prefix, End: store.PrefixEnd(r.prefix), AtRevision: revision, Limit: loadPage}
	var wg sync.WaitGroup
	// They are Load's, and end with the last page or the first error.
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			if err := l.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read %s at revision %d: %w", r.GR, revision, context.Cause(ctx))
	}
	count := 0
	for _, page := range l.pages {
		count += len(*page)
	}
	objects := make([]*wire.Object, 0, count)
	for _, page := range l.pages {
		objects = append(objects, *page...)
	}
	return objects, nil
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
	// next holds the query of the next page; the goroutine that receives it reads that page
	// and may change pages. It is closed after the last page.
	next  chan store.Query
	pages []*[]*wire.Object
}

// run reads one page after the other and decodes it while another goroutine reads.
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
		q.Buffer = &values
		page, err := l.resource.source.store.Read(ctx, q)
		if err != nil {
			return err
		}
		objects := make([]*wire.Object, len(page.Records))
		l.pages = append(l.pages, &objects)
		if page.More {
			q.Start = page.Records[len(page.Records)-1].Key + "\x00"
			l.next <- q
		} else {
			close(l.next)
		}
		for i, record := range page.Records {
			if objects[i], err = l.resource.Object(record.Key, record.Value, record.ModRevision); err != nil {
				return err
			}
		}
	}
}
