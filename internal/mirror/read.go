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
	now, err := c.log.Progress(ctx)
	if err != nil {
		return err
	}
	kept := c.log.Stats().Compacted // every change after it is kept
	r := reader{collection: c, kept: kept}
	if err := r.before(ctx, now); err != nil {
		return err
	}
	marks, err := c.marks(ctx, kept, now)
	if err != nil {
		return err
	}
	if err := r.changes(ctx, now, marks); err != nil {
		return err
	}
	c.positions = r.positions
	c.positions.torn = r.inside
	c.noted = r.through
	return nil
}

// reader puts together the positions of a collection.
type reader struct {
	positions

	collection *Collection
	kept       int64
	inside     bool                 // a replacement that has not ended
	cut        bool                 // what is kept begins inside of a replacement
	from       kube.ResourceVersion // where it began
	deletion   kube.ResourceVersion // of the next record, if that is a deletion
	last       int64                // the last change in the replacement
}

// before finds the state that is older than the changes that are kept: its resourceVersion is
// the highest of its objects and of the last mark.
func (r *reader) before(ctx context.Context, now int64) error {
	c := r.collection
	var newest kube.ResourceVersion
	var values store.Buffer
	q := store.Query{
		Start: c.key + "/", End: store.PrefixEnd(c.key + "/"), AtRevision: now, Limit: pageObjects, Buffer: &values,
		Want: func(_ string, revision int64) bool { return revision <= r.kept },
	}
	for {
		page, err := c.log.Read(ctx, q)
		if err != nil {
			return err
		}
		for _, record := range page.Records {
			if record.ModRevision > r.kept {
				continue
			}
			rv, _, err := decodeObject(record.Value)
			if err != nil {
				return fmt.Errorf("%q at revision %d: %w", record.Key, record.ModRevision, err)
			}
			newest = max(newest, rv)
		}
		if !page.More {
			break
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
	if r.kept > 0 {
		page, err := c.log.Read(ctx, store.Query{Start: c.markKey(), AtRevision: r.kept})
		if expired, is := errors.AsType[*store.CompactedError](err); is {
			return fmt.Errorf("the mark at revision %d: %w", r.kept, expired)
		}
		if err != nil {
			return err
		}
		for _, record := range page.Records {
			kind, rv, err := decodeMark(record.Value)
			if err != nil {
				return err
			}
			r.mark(kind, rv, record.ModRevision)
			if r.cut = r.inside; r.cut {
				newest = 0 // some objects are newer than the state that is known
			}
			newest = max(newest, rv)
		}
	}
	if newest > 0 && !r.cut {
		r.rows = []position{{r.kept, newest}} // also that of a mark, which is not later
	}
	r.progress(newest)
	return nil
}

// mark takes a mark into account.
func (r *reader) mark(kind markKind, rv kube.ResourceVersion, revision int64) {
	switch kind {
	case markDeletion:
		r.deletion = rv
	case markProgress:
		r.progress(rv)
	case markBegin:
		r.inside, r.from, r.last = true, rv, 0
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

// change takes a change of an object into account.
func (r *reader) change(change store.Change) error {
	if p := change.Previous; p != nil && p.ModRevision <= r.kept && !r.cut {
		rv, _, err := decodeObject(p.Value)
		if err != nil {
			return fmt.Errorf("%q at revision %d: %w", change.Key, p.ModRevision, err)
		}
		r.older(rv)
	}
	rv := r.deletion
	if !change.Deleted {
		var err error
		if rv, _, err = decodeObject(change.Value); err != nil {
			return fmt.Errorf("%q at revision %d: %w", change.Key, change.Revision, err)
		}
	}
	if r.inside {
		r.last = change.Revision
		return nil
	}
	r.add(change.Revision, rv)
	r.progress(rv)
	return nil
}

// older corrects the state before the changes that are kept: it had an object at rv, which was
// changed since.
func (r *reader) older(rv kube.ResourceVersion) {
	switch {
	case len(r.rows) == 0 || r.rows[0].rev != r.kept:
		r.rows = append([]position{{r.kept, rv}}, r.rows...)
	case r.rows[0].rv < rv:
		r.rows[0].rv = rv
	}
}

// changes reads the changes that are kept, in order with the marks.
func (r *reader) changes(ctx context.Context, now int64, marks []mark) error {
	c := r.collection
	var values store.Buffer
	feed, err := c.log.Changes(ctx, store.From{
		Prefix: c.key + "/", After: r.kept, UpTo: now, Buffer: &values,
		Want: func(change store.Change) (value, previous bool) {
			return !change.Deleted, change.Previous != nil && change.Previous.ModRevision <= r.kept
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
			if err := r.change(change); err != nil {
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

// marks returns the marks after a revision, in order.
func (c *Collection) marks(ctx context.Context, after, upTo int64) ([]mark, error) {
	feed, err := c.log.Changes(ctx, store.From{
		Key: c.markKey(), After: after, UpTo: upTo,
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
