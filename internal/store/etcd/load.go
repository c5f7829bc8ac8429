package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gapless-io/gapless/internal/store"
)

// load finds out which revisions the positions of the log have: those up to the checkpoint from it,
// the later ones from the records. Nothing after the checkpoint is compacted: the anchor holds it.
func (s *Store) load(ctx context.Context) error {
	r := rebuild{now: s.log.Stats().Revision}
	saved, err := s.loadCheckpoint(ctx, &r)
	if err != nil {
		return err
	}
	if s.anchor, err = s.log.Changes(ctx, store.From{After: saved.pos, Hold: true}); err != nil {
		return err
	}
	if r.marks, err = s.loadMarks(ctx, saved.pos, r.now); err != nil {
		return err
	}
	if err := s.loadChanges(ctx, saved.pos, &r); err != nil {
		return err
	}
	progress, err := s.loadOne(ctx, progressKey)
	if err != nil {
		return err
	}
	if progress != nil && !r.inside {
		rev, err := decodeRevision(progress)
		if err != nil {
			return fmt.Errorf("%q: %w", progressKey, err)
		}
		r.visible.rev, s.noted = max(r.visible.rev, rev), rev
	}
	s.saved, s.last = saved, r.last
	s.positions, s.visible = r.positions, r.visible
	if r.inside {
		s.torn = &r.hole
		if r.hole.from == 0 {
			s.visible = moment{} // there was no state before
		}
	}
	s.compacted = s.compactedAt(s.log.Stats().Compacted)
	return s.loadKnown(ctx)
}

// loadOne reads a record of the replica's own, nil if there is none.
func (s *Store) loadOne(ctx context.Context, key string) ([]byte, error) {
	page, err := s.log.Read(ctx, store.Query{Start: key})
	if err != nil || len(page.Records) == 0 {
		return nil, err
	}
	return page.Records[0].Value, nil
}

// loadCheckpoint reads the checkpoint; without one, it is at the beginning of the log.
func (s *Store) loadCheckpoint(ctx context.Context, r *rebuild) (moment, error) {
	record, err := s.loadOne(ctx, checkpointKey)
	if err != nil || record == nil {
		return moment{}, err
	}
	c, err := decodeCheckpoint(record)
	if err != nil {
		return moment{}, fmt.Errorf("%q: %w", checkpointKey, err)
	}
	r.positions = positions{holes: c.holes, newest: c.at.pos}
	r.visible, r.last = c.at, c.last
	for i := range c.records {
		record, err := s.loadOne(ctx, runsKey(c.number, i))
		if err != nil {
			return moment{}, err
		}
		runs, err := decodeRuns(record)
		if err != nil {
			return moment{}, fmt.Errorf("%q: %w", runsKey(c.number, i), err)
		}
		r.runs = append(r.runs, runs...)
	}
	s.number = c.number
	return c.at, nil
}

// placedMark is a mark and its position.
type placedMark struct {
	kind     markKind
	rev, pos int64
}

func (s *Store) loadMarks(ctx context.Context, after, upTo int64) ([]placedMark, error) {
	var marks []placedMark
	err := s.each(ctx, store.From{
		Key: markKey, After: after, UpTo: upTo, Want: func(store.Change) (value, previous bool) { return true, false },
	}, func(c store.Change) error {
		if c.Deleted {
			return nil
		}
		kind, rev, err := decodeMark(c.Value)
		marks = append(marks, placedMark{kind: kind, rev: rev, pos: c.Revision})
		return err
	})
	return marks, err
}

func (s *Store) loadChanges(ctx context.Context, after int64, r *rebuild) error {
	var values store.Buffer
	err := s.each(ctx, store.From{
		After: after, UpTo: r.now, Buffer: &values,
		Want: func(c store.Change) (value, previous bool) { return !c.Deleted, false },
	}, r.change)
	if err != nil {
		return err
	}
	r.marksBefore(r.now + 1)
	return nil
}

// each calls visit with the changes of a range of the log.
func (s *Store) each(ctx context.Context, from store.From, visit func(store.Change) error) error {
	if from.UpTo <= from.After {
		return nil
	}
	feed, err := s.log.Changes(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, c := range batch.Changes {
			if err := visit(c); err != nil {
				return fmt.Errorf("%q at position %d: %w", c.Key, c.Revision, err)
			}
		}
	}
}

// rebuild puts together what Store.positions and the like were when the log ended.
type rebuild struct {
	positions

	now     int64        // the end of the log
	marks   []placedMark // that were not passed yet
	inside  bool         // a replacement that has not ended
	hole    hole         // what it will be
	visible moment
	last    lastKnown
}

// marksBefore takes the marks before a position into account.
func (r *rebuild) marksBefore(pos int64) {
	for ; len(r.marks) > 0 && r.marks[0].pos < pos; r.marks = r.marks[1:] {
		m := r.marks[0]
		if m.kind != markBegin { // which is no part of a state
			r.add(m.pos, m.rev)
		}
		switch m.kind {
		case markDeletion:
			r.visible = moment{pos: m.pos, rev: max(m.rev, r.visible.rev)}
		case markBegin:
			if !r.inside { // otherwise it continues one that was cut off
				r.inside, r.hole = true, hole{from: m.rev, begin: m.pos}
			}
			if n := len(r.holes); n > 0 && r.holes[n-1].from == m.rev { // it had ended, but known.go's record was not written
				r.hole, r.holes = r.holes[n-1], r.holes[:n-1]
			}
			r.visible.rev = max(m.rev, r.visible.rev)
		case markEnd:
			r.inside = false
			r.hole.to, r.hole.end = m.rev, m.pos
			r.holes = append(r.holes, r.hole)
			r.visible = moment{pos: m.pos, rev: max(m.rev, r.visible.rev)}
		}
	}
}

func (r *rebuild) change(c store.Change) error {
	r.marksBefore(c.Revision)
	var rev, mod int64 // mod is the revision in etcd
	switch {
	case !c.Deleted:
		o, err := decodeObject(c.Value)
		if err != nil {
			return err
		}
		rev, mod = o.mod, o.mod
		if r.inside {
			rev = r.hole.revision(o.mod)
		}
	case r.inside:
		rev = r.hole.from + 1
		if c.Key == r.last.key { // it was overtaken by what nobody has seen, or is not served any more
			r.last = lastKnown{}
		}
	case len(r.marks) == 0 || r.marks[0].kind != markDeletion:
		return fmt.Errorf("a deletion without its mark: %w", errRecord)
	default:
		rev, mod = r.marks[0].rev, r.marks[0].rev
	}
	r.add(c.Revision, rev)
	if mod > 0 && mod >= r.last.rev {
		r.last = lastKnown{key: c.Key, rev: mod, deleted: c.Deleted}
	}
	if !r.inside {
		r.visible = moment{pos: c.Revision, rev: max(rev, r.visible.rev)}
	}
	return nil
}
