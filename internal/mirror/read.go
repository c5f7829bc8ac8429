package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

// pageObjects is how many records are read at once.
const pageObjects = 1000

// read finds out the positions of what the log has of the collection: all changes that are
// kept, and the state that was there before the first of them.
func (c *Collection) read(ctx context.Context) error {
	for kept := int64(-1); ; {
		stats := c.log.Stats()
		was := kept
		// Every change after it is kept.
		kept = max(stats.Compacted, stats.Floors[c.key].Revision, stats.Floors[store.ResourceOf(c.markKey())].Revision)
		r := reader{collection: c, kept: kept, now: stats.Revision}
		err := r.read(ctx)
		if _, is := errors.AsType[*store.CompactedError](err); is && kept > was {
			continue // history was compacted meanwhile
		}
		if err != nil {
			return err
		}
		c.positions = r.positions
		c.positions.torn = r.inside
		c.noted = r.through
		return nil
	}
}

// reader puts together the positions of a collection.
type reader struct {
	positions

	collection *Collection
	kept, now  int64                // the revisions after and up to which the changes are read
	inside     bool                 // a replacement that has not ended
	from       kube.ResourceVersion // where it began
	last       int64                // the last change in the replacement
}

func (r *reader) read(ctx context.Context) error {
	if r.kept > 0 {
		if err := r.before(ctx); err != nil {
			return err
		}
	}
	marks, err := r.marks(ctx)
	if err != nil {
		return err
	}
	if err := r.changes(ctx, marks); err != nil {
		return err
	}
	return r.furthest(ctx)
}

// furthest takes into account how far the collection came without a change.
func (r *reader) furthest(ctx context.Context) error {
	page, err := r.collection.log.Read(ctx, store.Query{Start: r.collection.progressKey(), AtRevision: r.now})
	if err != nil {
		return err
	}
	for _, record := range page.Records {
		kind, rv, err := decodeMark(record.Value)
		if err != nil {
			return fmt.Errorf("%q at revision %d: %w", record.Key, record.ModRevision, err)
		}
		r.mark(kind, rv, record.ModRevision)
	}
	return nil
}

// before finds the resourceVersion of the state that is older than the changes that are kept:
// that of the last mark, or of the last change of an object that is not superseded. They
// were written in the order of their resourceVersions, besides those of a replacement, which
// has a mark at its end.
func (r *reader) before(ctx context.Context) error {
	c := r.collection
	page, err := c.log.Read(ctx, store.Query{Start: c.markKey(), AtRevision: r.kept})
	if err != nil {
		return err
	}
	var newest kube.ResourceVersion
	for _, record := range page.Records {
		kind, rv, err := decodeMark(record.Value)
		if err != nil {
			return fmt.Errorf("%q at revision %d: %w", record.Key, record.ModRevision, err)
		}
		r.mark(kind, rv, record.ModRevision)
		newest = rv
	}
	if r.inside {
		return nil // the state before it is not kept
	}
	last, err := r.lastPut(ctx)
	if err != nil {
		return err
	}
	if newest = max(newest, last); newest > 0 {
		r.add(r.kept, newest)
	}
	r.progress(newest)
	return nil
}

// lastPut returns the resourceVersion of the object that was written last, of those that
// there were at kept; 0 if there was none.
func (r *reader) lastPut(ctx context.Context) (kube.ResourceVersion, error) {
	c := r.collection
	var last string
	var newest int64
	q := store.Query{
		Start: c.key + "/", End: store.PrefixEnd(c.key + "/"), AtRevision: r.kept, Limit: pageObjects,
		Want: func(key string, revision int64) bool {
			if revision > newest {
				last, newest = key, revision
			}
			return false
		},
	}
	for {
		page, err := c.log.Read(ctx, q)
		if err != nil {
			return 0, err
		}
		if !page.More {
			break
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
	if newest == 0 {
		return 0, nil
	}
	page, err := c.log.Read(ctx, store.Query{Start: last, AtRevision: r.kept})
	if err != nil {
		return 0, err
	}
	rv, _, err := decodeObject(page.Records[0].Value)
	if err != nil {
		return 0, fmt.Errorf("%q at revision %d: %w", last, newest, err)
	}
	return rv, nil
}

// mark takes a mark into account.
func (r *reader) mark(kind markKind, rv kube.ResourceVersion, revision int64) {
	switch kind {
	case markDeletion:
		r.progress(rv)
		if revision == r.kept+1 && r.kept > 0 && !r.inside {
			r.rows = []position{{r.kept, rv}} // the deletion is the last change that is not kept
		}
	case markProgress:
		r.progress(rv)
	case markBegin:
		r.inside, r.from, r.last = true, rv, 0
		r.progress(rv)
	case markEnd:
		if r.inside {
			if r.last == 0 {
				r.last = revision
			}
			r.replaced(hole{from: r.from, to: rv, rev: r.last})
		}
		r.inside = false
	}
}

// change takes a change of an object into account. next is the mark that follows.
func (r *reader) change(change store.Change, next mark) error {
	rv := next.rv
	switch {
	case r.inside:
		r.last = change.Revision
		return nil
	case change.Deleted && (next.kind != markDeletion || next.revision != change.Revision+1):
		return fmt.Errorf("%q at revision %d: a deletion without its mark", change.Key, change.Revision)
	case !change.Deleted:
		var err error
		if rv, _, err = decodeObject(change.Value); err != nil {
			return fmt.Errorf("%q at revision %d: %w", change.Key, change.Revision, err)
		}
	}
	r.add(change.Revision, rv)
	r.progress(rv)
	return nil
}

// changes reads the changes that are kept, in order with the marks.
func (r *reader) changes(ctx context.Context, marks []mark) error {
	c := r.collection
	var values store.Buffer
	inside, following := r.inside, marks
	feed, err := c.log.Changes(ctx, store.From{
		Prefix: c.key + "/", After: r.kept, UpTo: r.now, Buffer: &values,
		// The changes of a replacement have one position.
		Want: func(change store.Change) (value, previous bool) {
			for ; len(following) > 0 && following[0].revision < change.Revision; following = following[1:] {
				switch following[0].kind {
				case markBegin:
					inside = true
				case markEnd:
					inside = false
				case markDeletion, markProgress:
				}
			}
			return !inside, false
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, change := range batch.Changes {
			for len(marks) > 0 && marks[0].revision < change.Revision {
				r.mark(marks[0].kind, marks[0].rv, marks[0].revision)
				marks = marks[1:]
			}
			var next mark
			if len(marks) > 0 {
				next = marks[0]
			}
			if err := r.change(change, next); err != nil {
				return err
			}
		}
	}
	for _, m := range marks {
		r.mark(m.kind, m.rv, m.revision)
	}
	return nil
}

// mark is a mark in the log.
type mark struct {
	kind     markKind
	rv       kube.ResourceVersion
	revision int64
}

// marks returns the marks that are kept, in order.
func (r *reader) marks(ctx context.Context) ([]mark, error) {
	c := r.collection
	feed, err := c.log.Changes(ctx, store.From{
		Key: c.markKey(), After: r.kept, UpTo: r.now,
		Want: func(store.Change) (value, previous bool) { return true, false },
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	var all []mark
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		for _, change := range batch.Changes {
			kind, rv, err := decodeMark(change.Value)
			if err != nil {
				return nil, fmt.Errorf("%q at revision %d: %w", change.Key, change.Revision, err)
			}
			all = append(all, mark{kind, rv, change.Revision})
		}
	}
}
