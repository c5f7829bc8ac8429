package revlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/count"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

const (
	// checkEvery is how many keys are walked between two looks at the context.
	checkEvery = 4096
	// maxPageBytes is from which size on a page with a limit is cut.
	maxPageBytes = 1 << 20
	// maxRoom is for how many records of a page memory is taken before they are found.
	maxRoom = 1024
)

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
	wants, unread, err := walk(ctx, v.keys, q, &page)
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
		page.Remaining, err = l.counter.Count(ctx, rest, v.revision, l.countable)
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
	case revision == 0:
		revision = l.current
	case revision > l.current:
		return view{}, &store.FutureRevisionError{Requested: revision, Current: l.current}
	}
	if err := l.index.Check(index.Span{Start: q.Start, End: q.End}, revision); err != nil {
		return view{}, err
	}
	return view{keys: l.snapshotLocked(), set: l.segments.hold(), revision: revision}, nil
}

func (l *Log) snapshotLocked() *index.KeyMap {
	if l.snapshot == nil {
		l.snapshot = l.index.Keys.Copy()
	}
	return l.snapshot
}

// walk collects the versions that page is made of, up to the first that its limit
// leaves out, and those of them that need their values.
func walk(ctx context.Context, keys *index.KeyMap, q store.Query, page *store.Page) (wants []wanted, unread []*wanted, err error) {
	wants = make([]wanted, 0, min(q.Limit, maxRoom))
	var places []int // of unread in wants, which may move while it grows
	bytes := 0
	visit := func(h index.History) (goOn bool) {
		i := h.At(page.Revision)
		if i < 0 || h.Versions[i].Deleted {
			return true
		}
		if page.More = q.Limit > 0 && len(wants) == q.Limit; page.More {
			return false
		}
		v := h.Versions[i]
		if q.Want == nil || q.Want(h.Key, v.Revision) {
			bytes += int(v.Size)
			if page.More = q.Limit > 0 && len(wants) > 0 && bytes > maxPageBytes; page.More {
				return false
			}
			places = append(places, len(wants))
		}
		wants = append(wants, wanted{key: h.Key, version: v})
		return true
	}
	walked := 0
	if h, ok := keys.Get(q.Start); q.End == "" && ok {
		visit(h)
	}
	keys.Ascend(q.Start, func(key string, h index.History) bool {
		walked++
		return key < q.End && visit(h) && (walked%checkEvery != 0 || ctx.Err() == nil)
	})
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	for _, i := range places {
		unread = append(unread, &wants[i])
	}
	return wants, unread, nil
}

// fill finds the values in memory or on disk.
func (l *Log) fill(ctx context.Context, set *segmentSet, unread []*wanted, take func(int) []byte) error {
	l.mu.Lock()
	order := slices.DeleteFunc(unread, func(w *wanted) bool {
		w.value = l.values.Get(w.version.Revision)
		return w.value != nil
	})
	l.mu.Unlock()
	return set.loadInto(ctx, l.fs.Dir().Path(), order, placement{take: take, gap: loadGap})
}

// placement is the memory for values, and the largest gap between two that are read at once.
type placement struct {
	take func(n int) []byte
	gap  int64
}

// loadInto is load for values that stay where they are read.
func (s *segmentSet) loadInto(ctx context.Context, dir string, order []*wanted, at placement) error {
	slices.SortFunc(order, func(a, b *wanted) int {
		return cmp.Or(cmp.Compare(a.version.Segment, b.version.Segment), cmp.Compare(a.version.Offset, b.version.Offset))
	})
	for len(order) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, start, end := run(order, at.gap)
		buf := at.take(int(end - start))
		// loadRun copies the values of a run of several, but not of one.
		if err := s.loadRun(dir, order[:1], start, buf); err != nil {
			return err
		}
		seg := s.byID[order[0].version.Segment]
		for _, w := range order[1:n] {
			at := int64(w.version.Offset) - start
			r, _, err := format.DecodeRecord(buf[at:at+int64(w.version.Size)], seg.seed)
			if err != nil || r.Key != w.key || r.Revision != w.version.Revision {
				return s.loadRun(dir, []*wanted{w}, int64(w.version.Offset), make([]byte, w.version.Size)) // says what is wrong
			}
			w.value = r.Value
		}
		order = order[n:]
	}
	return nil
}

// countable is the index for counts (count.View).
func (l *Log) countable(all []*count.Tally) (keys *index.KeyMap, refused []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused = make([]error, len(all))
	for i, t := range all {
		refused[i] = l.checkLocked(t.Span, t.Revision) // it may have been compacted since the page was read
	}
	return l.snapshotLocked(), refused
}
