package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// Read implements store.Store. It reads the replica's log, as far as that has come; see Progress.
func (s *Store) Read(ctx context.Context, q store.Query) (store.Page, error) {
	if q.AtRevision < 0 || q.Limit < 0 || !q.At.IsZero() && q.AtRevision != 0 {
		return store.Page{}, fmt.Errorf("read at revision %d with limit %d: %w", q.AtRevision, q.Limit, store.ErrInvalid)
	}
	at, err := s.wait(ctx, 1)
	if err != nil {
		return store.Page{}, err
	}
	if !q.At.IsZero() {
		if q.AtRevision, err = s.committedBy(ctx, q, at); err != nil {
			return store.Page{}, err
		}
	}
	below, revision := q, at.rev
	below.At, below.AtRevision = time.Time{}, at.pos
	if q.AtRevision > 0 {
		if q.AtRevision > at.rev {
			return store.Page{}, &store.FutureRevisionError{Requested: q.AtRevision, Current: at.rev}
		}
		revision = q.AtRevision
		if below.AtRevision, err = s.position(q.AtRevision, store.From{Prefix: q.Start}); err != nil {
			return store.Page{}, err
		}
	}
	if below.End > own+"/" {
		below.End = own + "/"
	}
	if q.Want != nil {
		below.Want = func(key string, pos int64) bool { return q.Want(key, s.revision(pos)) }
	}
	page, err := s.log.Read(ctx, below)
	if err != nil {
		return store.Page{}, s.expired(err, revision)
	}
	page.Revision = revision
	for i := range page.Records {
		err := s.reveal(&page.Records[i], q.Buffer)
		if err != nil && (!q.Unreadable || page.Records[i].Unreadable == nil) {
			return store.Page{}, s.superseded(ctx, err, revision)
		}
	}
	return page, nil
}

// committedBy returns the revision that a resource had at a time: that of the last of its changes that this replica
// had seen by then. What came while it was away is as old as its return.
func (s *Store) committedBy(ctx context.Context, q store.Query, visible moment) (int64, error) {
	page, err := s.log.Read(ctx, store.Query{
		Start: q.Start, End: q.End, At: q.At, Limit: 1, Want: func(string, int64) bool { return false },
	})
	if err != nil {
		return 0, s.expired(err, 0)
	}
	return max(s.revision(min(page.Revision, visible.pos)), 1), nil
}

// position returns the position at which the state is that at a revision that was reached. Errors:
// *store.CompactedError inside a hole, unless the reader comes from before it, and before the log had the resource.
func (s *Store) position(rev int64, reader store.From) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.unknownLocked(store.ResourceOf(reader.Prefix+reader.Key), rev); err != nil {
		return 0, err
	}
	if h, in := s.positions.hole(rev); in && (reader.Since == 0 || reader.Since > h.from) {
		return 0, &store.CompactedError{
			Resource: store.ResourceOf(reader.Prefix + reader.Key), Requested: rev, Floor: h.to, Reason: store.ReasonUnseen,
		}
	}
	return min(s.positions.at(rev), s.visible.pos), nil
}

// reveal turns a record of the log into one of the store. If its value cannot be read, its error is the record's
// Unreadable; with another one the record is as before. The value is in the memory of a buffer, unless that is nil.
func (s *Store) reveal(r *store.Record, into *store.Buffer) error {
	if r.Value == nil { // it was not wanted
		s.mu.RLock()
		defer s.mu.RUnlock()
		r.ModRevision, r.CreateRevision = s.positions.revision(r.ModRevision), s.positions.revision(r.CreateRevision)
		return nil
	}
	o, err := decodeObject(r.Value)
	if err != nil {
		return fmt.Errorf("%q at position %d: %w", r.Key, r.ModRevision, err)
	}
	r.ModRevision, r.CreateRevision = o.mod, o.create
	var room []byte
	if into != nil {
		// JSON takes a little more. What takes much more gets memory of its own.
		room = into.Take(len(o.value) + len(o.value)/4)[:0]
	}
	if r.Value, err = s.opts.Layout.AppendDecoded(room, r.Key, o.value); err != nil {
		r.Value, r.Unreadable = nil, s.unreadable(r.Key, o.mod, err)
		return r.Unreadable
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
	return nil
}

// unreadable returns the error of a value of etcd that the layout does not decode.
func (s *Store) unreadable(key string, mod int64, cause error) *store.UnreadableError {
	e := store.UnreadableError{Malformed: true, Cause: cause}
	if encrypted, is := errors.AsType[*store.UnreadableError](cause); is {
		e = *encrypted
	}
	e.Key, e.Revision = key, mod
	if at, err := s.opts.Layout.Key(key); err == nil {
		e.Place = at
	}
	return &e
}

// superseded turns the error of a value that is not the latest of its key into that of a compaction: nobody
// needs to read it any more but who asks for the past.
func (s *Store) superseded(ctx context.Context, err error, requested int64) error {
	e, is := errors.AsType[*store.UnreadableError](err)
	if !is || e.Temporary {
		return err
	}
	page, readErr := s.log.Read(ctx, store.Query{Start: e.Key})
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if len(page.Records) == 1 {
		o, wrong := decodeObject(page.Records[0].Value)
		if wrong != nil || o.mod == e.Revision {
			return err
		}
	}
	return &store.CompactedError{
		Resource: store.ResourceOf(e.Key), Requested: requested, Floor: max(e.Revision, requested) + 1,
		Reason: store.ReasonUnreadable,
	}
}

// expired gives a *store.CompactedError of the log etcd's revisions.
func (s *Store) expired(err error, requested int64) error {
	compacted, is := errors.AsType[*store.CompactedError](err)
	if !is {
		return err
	}
	out := *compacted
	out.Requested, out.Floor = requested, s.revision(compacted.Floor)
	return &out
}
