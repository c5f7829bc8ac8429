package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
)

// Read implements store.Store. It reads the replica's log, as far as that has come; see Progress.
func (s *Store) Read(ctx context.Context, q store.Query) (store.Page, error) {
	if q.AtRevision < 0 || q.Limit < 0 {
		return store.Page{}, fmt.Errorf("read at revision %d with limit %d: %w", q.AtRevision, q.Limit, store.ErrInvalid)
	}
	at, err := s.wait(ctx, 1)
	if err != nil {
		return store.Page{}, err
	}
	below, revision := q, at.rev
	below.AtRevision = at.pos
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
		if err := s.reveal(&page.Records[i]); err != nil {
			return store.Page{}, err
		}
	}
	return page, nil
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

// reveal turns a record of the log into one of the store. With an error, the record is as before.
func (s *Store) reveal(r *store.Record) error {
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
	value, err := s.opts.Layout.Decode(r.Key, o.value)
	if err != nil {
		return fmt.Errorf("decode %q of revision %d: %w", r.Key, o.mod, err)
	}
	if value == nil {
		value = []byte{}
	}
	r.ModRevision, r.CreateRevision, r.Value = o.mod, o.create, value
	return nil
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
