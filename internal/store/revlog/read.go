package revlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// Read implements store.Store. It walks a snapshot of the index, so it neither
// waits for writes nor holds them up, and reads the values from the segments.
func (l *Log) Read(ctx context.Context, q store.Query) (store.Page, error) {
	if ctx.Err() != nil {
		return store.Page{}, context.Cause(ctx)
	}
	if q.AtRevision < 0 || q.Limit < 0 || !q.At.IsZero() && (q.AtRevision != 0 || span(q).Single() == "") {
		return store.Page{}, fmt.Errorf("read at revision %d with limit %d: %w", q.AtRevision, q.Limit, store.ErrInvalid)
	}
	v, err := l.view(q)
	if err != nil {
		return store.Page{}, err
	}
	defer v.set.release(l)
	page := store.Page{Revision: v.revision}
	wants, unread, err := walkPage(ctx, v.keys, q, &page)
	if err != nil {
		return store.Page{}, err
	}
	take := func(n int) []byte { return make([]byte, n) }
	if q.Buffer != nil {
		q.Buffer.Reset()
		take = q.Buffer.Take
	}
	if err := l.fill(ctx, v.set, unread, take); err != nil {
		return store.Page{}, err
	}
	page.Records = make([]store.Record, len(wants))
	for i, w := range wants {
		page.Records[i] = w.version.Record(w.key, w.value)
	}
	if page.More && q.Count {
		rest := index.Span{Start: wants[len(wants)-1].key + "\x00", End: q.End}
		page.Remaining, err = l.counter.count(ctx, rest, v.revision, l.countable)
	}
	return page, err
}

// view is what a Read needs: the index as it was at one moment, the segments it
// points into, which the reader releases, and the revision to read at.
type view struct {
	keys     *index.KeyMap
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
	case !q.At.IsZero():
		var err error
		if revision, err = l.committedByLocked(span(q), q.At); err != nil {
			return view{}, err
		}
	case revision == 0:
		revision = l.current
	case revision > l.current:
		return view{}, &store.FutureRevisionError{Requested: revision, Current: l.current}
	}
	if err := l.index.Check(span(q), revision); err != nil {
		return view{}, err
	}
	return view{keys: l.snapshotLocked(), set: l.segments.hold(), revision: revision}, nil
}

func span(q store.Query) index.Span { return index.Span{Start: q.Start, End: q.End} }

func (l *Log) snapshotLocked() *index.KeyMap {
	if l.snapshot == nil {
		l.snapshot = l.index.Keys.Copy()
	}
	return l.snapshot
}

// fill finds the values in memory or on disk.
func (l *Log) fill(ctx context.Context, set *segmentSet, unread []*wanted, take func(int) []byte) error {
	l.mu.Lock()
	order := slices.DeleteFunc(unread, func(w *wanted) bool {
		w.value = l.values.Get(w.version.Revision)
		return w.value != nil
	})
	l.mu.Unlock()
	return l.loader(set).readInto(ctx, order, placement{take: take, gap: pageGap})
}

func (l *Log) loader(set *segmentSet) loader { return loader{set: set, dir: l.fs.Dir().Path()} }

// countable is the index for counts (countView).
func (l *Log) countable(all []*tally) (keys *index.KeyMap, refused []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused = make([]error, len(all))
	for i, t := range all {
		refused[i] = l.checkLocked(t.Span, t.revision) // it may have been compacted since the page was read
	}
	return l.snapshotLocked(), refused
}
