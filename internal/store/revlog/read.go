package revlog

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
)

// checkEvery is how many keys are walked between two looks at the context.
const checkEvery = 4096

// Read implements store.Store. It walks a snapshot of the index, so it neither
// waits for writes nor holds them up, and reads the values from the segments.
func (l *Log) Read(ctx context.Context, q store.Query) (store.Page, error) {
	if ctx.Err() != nil {
		return store.Page{}, context.Cause(ctx)
	}
	if q.AtRevision < 0 || q.Limit < 0 {
		return store.Page{}, fmt.Errorf("read at revision %d with limit %d: %w", q.AtRevision, q.Limit, store.ErrInvalid)
	}
	v, err := l.view(q)
	if err != nil {
		return store.Page{}, err
	}
	defer v.set.release(l)
	page := store.Page{Revision: v.revision}
	wants, err := walk(ctx, v.keys, q, &page)
	if err != nil {
		return store.Page{}, err
	}
	if err := l.fill(ctx, v.set, wants); err != nil {
		return store.Page{}, err
	}
	page.Records = make([]store.Record, len(wants))
	for i, w := range wants {
		page.Records[i] = w.version.record(w.key, w.value)
	}
	return page, nil
}

// view is what a Read needs: the index as it was at one moment, the segments it
// points into, which the reader releases, and the revision to read at.
type view struct {
	keys     *keyMap
	set      *segmentSet
	revision int64
}

func (l *Log) view(q store.Query) (view, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return view{}, store.ErrClosed
	}
	revision := q.AtRevision
	switch {
	case revision == 0:
		revision = l.current
	case revision > l.current:
		return view{}, &store.FutureRevisionError{Requested: revision, Current: l.current}
	}
	if err := l.index.check(span{q.Start, q.End}, revision); err != nil {
		return view{}, err
	}
	if l.snapshot == nil {
		l.snapshot = l.index.keys.Copy()
	}
	return view{keys: l.snapshot, set: l.segments.hold(), revision: revision}, nil
}

// walk collects the versions that page is made of and counts what its limit
// leaves out.
func walk(ctx context.Context, keys *keyMap, q store.Query, page *store.Page) ([]wanted, error) {
	var wants []wanted
	visit := func(h history) {
		i := h.at(page.Revision)
		switch {
		case i < 0 || h.versions[i].deleted:
		case q.Limit > 0 && len(wants) == q.Limit:
			page.Remaining++
		default:
			wants = append(wants, wanted{key: h.key, version: h.versions[i]})
		}
	}
	if q.End == "" {
		if h, ok := keys.Get(q.Start); ok {
			visit(h)
		}
		return wants, nil
	}
	walked := 0
	keys.Ascend(q.Start, func(key string, h history) bool {
		if key >= q.End {
			return false
		}
		visit(h)
		walked++
		return walked%checkEvery != 0 || ctx.Err() == nil
	})
	page.More = page.Remaining > 0
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return wants, nil
}

// fill finds the values of wants in memory or on disk.
func (l *Log) fill(ctx context.Context, set *segmentSet, wants []wanted) error {
	missing := make([]wanted, 0, len(wants))
	places := make([]int, 0, len(wants))
	l.mu.Lock()
	for i := range wants {
		if wants[i].value = l.values.get(wants[i].version.revision); wants[i].value == nil {
			missing = append(missing, wants[i])
			places = append(places, i)
		}
	}
	l.mu.Unlock()
	if err := set.load(ctx, l.fs.Dir().Path(), missing); err != nil {
		return err
	}
	for i, place := range places {
		wants[place].value = missing[i].value
	}
	return nil
}
