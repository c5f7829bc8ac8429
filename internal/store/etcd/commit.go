package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Commit implements store.Store: it is one transaction of etcd, and returns when the replica's log has
// it too. store.ErrOutcomeUnknown says that etcd did not answer: the write may have taken effect, or take
// effect later, unless the object is seen to have changed in another way. The Time of the current record
// of a conflict is not known.
func (s *Store) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	w, err := s.prepare(ctx, t)
	if err != nil {
		return store.Committed{}, err
	}
	done, err := s.commit(ctx, w)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // nothing was written; it expired just now
		s.leases.lost(ctx, w.lease)
		if w, err = s.prepare(ctx, t); err != nil {
			return store.Committed{}, err
		}
		done, err = s.commit(ctx, w)
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return store.Committed{}, &store.UnavailableError{Cause: fmt.Errorf("put %q under a lease: %w", w.Key, err)}
	}
	if err != nil {
		return store.Committed{}, err
	}
	if _, err := s.wait(ctx, done.Revision); err != nil {
		if ctx.Err() == nil { // the store was closed, or has failed; it is no refusal
			err = fmt.Errorf("write %q: %w: %w", t.Key, store.ErrOutcomeUnknown, err)
		}
		return store.Committed{}, err
	}
	return done, nil
}

// write is a Txn as etcd takes it.
type write struct {
	store.Txn

	key   string // in etcd
	value []byte // as it is in etcd
	lease clientv3.LeaseID
}

func (s *Store) prepare(ctx context.Context, t store.Txn) (write, error) {
	w := write{Txn: t}
	if _, err := s.wait(ctx, 1); err != nil {
		return w, err
	}
	resource, _, found := strings.Cut(t.Key, "/")
	switch {
	case !found || resource == "" || resource == own:
		return w, fmt.Errorf("key %.100q is not of the form resource/rest: %w", t.Key, store.ErrInvalid)
	case len(t.Key) > revlog.MaxKeyBytes:
		return w, &store.TooLargeError{What: "key", Bytes: len(t.Key), Limit: revlog.MaxKeyBytes}
	}
	var err error
	if w.key, err = s.opts.Layout.Key(t.Key); err != nil {
		return w, fmt.Errorf("the key of %q in etcd: %w", t.Key, err)
	}
	if t.Delete {
		return w, nil
	}
	if len(t.Value) > revlog.MaxValueBytes-headBytes { // before it is encoded
		return w, &store.TooLargeError{What: "value", Bytes: len(t.Value), Limit: revlog.MaxValueBytes - headBytes}
	}
	var before func() ([]byte, error)
	if t.ExpectedModRevision > 0 {
		before = func() ([]byte, error) { return s.replaced(ctx, t) }
	}
	if w.value, err = s.opts.Layout.Encode(t.Key, t.Value, before); err != nil {
		return w, fmt.Errorf("encode %q for etcd: %w", t.Key, err)
	}
	if len(w.value) > revlog.MaxValueBytes-headBytes {
		return w, &store.TooLargeError{What: "value", Bytes: len(w.value), Limit: revlog.MaxValueBytes - headBytes}
	}
	if s.opts.TTL == nil || t.Lasting {
		return w, nil
	}
	if ttl := s.opts.TTL(t.Key); ttl > 0 {
		attended, end := s.attended(ctx)
		defer end()
		if w.lease, err = s.leases.take(attended, ttl); err != nil {
			return w, s.refused(ctx, err, 0)
		}
	}
	return w, nil
}

// replaced returns the value in etcd that a write replaces; nil if that is another one by now, which is a
// conflict.
func (s *Store) replaced(ctx context.Context, t store.Txn) ([]byte, error) {
	page, err := s.log.Read(ctx, store.Query{Start: t.Key})
	if err != nil || len(page.Records) == 0 {
		return nil, err
	}
	o, err := decodeObject(page.Records[0].Value)
	if err != nil || o.mod != t.ExpectedModRevision {
		return nil, err
	}
	return o.value, nil
}

// refused returns the error of a call that had no effect, or ctx's cause.
func (s *Store) refused(ctx context.Context, err error, bytes int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	refused := refusal(err, bytes)
	if refused == nil {
		refused = &store.UnavailableError{Cause: err}
	}
	s.noteRefused(err, refused)
	return refused
}

func (s *Store) commit(ctx context.Context, w write) (store.Committed, error) {
	before, _ := s.seen()
	resp, err := s.send(ctx, w)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return store.Committed{}, context.Cause(ctx)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return store.Committed{}, err
	default:
		refused := refusal(err, len(w.value))
		if refused == nil {
			unknown := fmt.Errorf("write %q to etcd: %w: %w", w.Key, store.ErrOutcomeUnknown, err)
			if errors.Is(err, errNoAnswers) { // it would not say what came of it
				return store.Committed{}, unknown
			}
			return s.resolve(ctx, w, before.rev, unknown)
		}
		s.noteRefused(err, refused)
		if errors.Is(err, rpctypes.ErrNoSpace) { // etcd says so of what it has applied, too
			return s.resolve(ctx, w, before.rev, refused)
		}
		return store.Committed{}, refused
	}
	s.health.wrote(nil)
	if err := s.checkAnswer(resp.Header); err != nil {
		return store.Committed{}, err
	}
	if resp.Header.Revision < before.rev || resp.Succeeded && resp.Header.Revision == before.rev {
		err := s.wentBack(resp.Header.Revision, before.rev)
		s.fail(err)
		return store.Committed{}, err
	}
	if resp.Succeeded {
		return store.Committed{Revision: resp.Header.Revision}, nil
	}
	return store.Committed{}, s.conflict(w, resp.Responses[0].GetResponseRange().Kvs)
}

func (s *Store) send(ctx context.Context, w write) (*clientv3.TxnResponse, error) {
	ctx, end := s.attended(clientv3.WithRequireLeader(ctx))
	defer end()
	txn := s.client.Txn(ctx)
	current := clientv3.OpGet(w.key)
	condition := clientv3.Compare(clientv3.ModRevision(w.key), "=", w.ExpectedModRevision)
	switch {
	case w.Delete && w.ExpectedModRevision == 0: // is always a conflict
		txn = txn.If(clientv3.Compare(clientv3.Version(w.key), "<", 0)).Else(current)
	case w.Delete:
		txn = txn.If(condition).Then(clientv3.OpDelete(w.key)).Else(current)
	default:
		txn = txn.If(condition).Then(clientv3.OpPut(w.key, string(w.value), clientv3.WithLease(w.lease))).Else(current)
	}
	resp, err := txn.Commit()
	return resp, withCause(ctx, err)
}

// conflict returns the error of a condition that did not hold.
func (s *Store) conflict(w write, kvs []*mvccpb.KeyValue) error {
	conflict := &store.ConflictError{Key: w.Key, Expected: w.ExpectedModRevision}
	if len(kvs) == 0 {
		return conflict
	}
	kv := kvs[0]
	value, err := s.opts.Layout.AppendDecoded(nil, w.Key, kv.Value)
	if err != nil {
		return s.unreadable(w.Key, kv.ModRevision, err)
	}
	conflict.Current = &store.Record{Key: w.Key, Value: value, ModRevision: kv.ModRevision, CreateRevision: kv.CreateRevision}
	return conflict
}

// resolveFor bounds how long it is tried to find out what came of a write.
const resolveFor = 5 * time.Second

var errUnresolved = errors.New("etcd has not said what came of the write")

// resolve finds out what came of a write that was sent at a revision, and for which etcd has no
// certain answer: none, or that its space is used up, which it says without the write and after it
// (etcd quotaApplierV3.Txn). Nothing of it is seen: then failed holds, which is the error
// without an answer. It is certain in two cases: the change that followed the expected version is
// another one, so that this write can never take effect; or it created an object, with the bytes that
// were sent, which have an identity of their own. Otherwise somebody else may have written the same
// bytes, or the request may still be under way.
func (s *Store) resolve(ctx context.Context, w write, sent int64, failed error) (store.Committed, error) {
	unknown := failed
	if !errors.Is(failed, store.ErrOutcomeUnknown) {
		unknown = fmt.Errorf("write %q to etcd: %w: %w", w.Key, store.ErrOutcomeUnknown, failed)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, resolveFor, errUnresolved)
	defer cancel()
	rev, err := s.Progress(ctx)
	if err != nil {
		return store.Committed{}, errors.Join(unknown, err)
	}
	if w.ExpectedModRevision > 0 {
		sent = w.ExpectedModRevision
	}
	if s.isHole(sent, rev) { // of several changes the last is known
		return store.Committed{}, unknown
	}
	changes, err := s.changesOf(ctx, w.Key, sent, rev)
	switch {
	case err != nil:
		return store.Committed{}, errors.Join(unknown, err)
	case len(changes) == 0:
		return store.Committed{}, failed
	case w.ExpectedModRevision == 0: // it may be deleted by now, and a write take effect later
		for _, c := range changes {
			if !w.Delete && !c.deleted && c.mod == c.create && bytes.Equal(c.value, w.value) {
				return store.Committed{Revision: c.mod}, nil
			}
		}
		return store.Committed{}, failed
	case changes[0].deleted == w.Delete && bytes.Equal(changes[0].value, w.value):
		return store.Committed{}, unknown
	}
	resp, err := s.client.Get(ctx, w.key)
	if err == nil {
		err = s.checkAnswer(resp.Header)
	}
	if err != nil {
		return store.Committed{}, errors.Join(unknown, withCause(ctx, err))
	}
	return store.Committed{}, s.conflict(w, resp.Kvs)
}

// isHole reports whether some changes between two revisions are not known.
func (s *Store) isHole(after, upTo int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.positions.over(after, upTo)) > 0
}

// changesOf returns the changes of a key after a revision, up to one that was reached.
func (s *Store) changesOf(ctx context.Context, key string, after, upTo int64) ([]event, error) {
	s.mu.RLock()
	from := store.From{Key: key, After: s.positions.at(after), UpTo: s.positions.at(upTo)}
	s.mu.RUnlock()
	from.Want = func(c store.Change) (value, previous bool) { return !c.Deleted, false }
	var changes []event
	err := s.each(ctx, from, func(c store.Change) error {
		e := event{key: c.Key, deleted: c.Deleted, mod: s.revision(c.Revision)}
		if !c.Deleted {
			o, err := decodeObject(c.Value)
			if err != nil {
				return err
			}
			if o.mod <= after { // recorded later: hole.revision
				return nil
			}
			e.mod, e.create, e.value = o.mod, o.create, o.value
		}
		changes = append(changes, e)
		return nil
	})
	return changes, err
}
