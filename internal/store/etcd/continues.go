package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/store"
)

const (
	// recentChanges is how many of the last positions of the log are looked at for objects to compare with etcd.
	recentChanges = 64
	// mostChecked and checkedBytes bound how many objects are compared, and their values: it is one request.
	mostChecked  = 16
	checkedBytes = 1 << 20
)

// fact is what the log says about a key at a revision.
type fact struct {
	key    string // of the store
	rev    int64
	exists bool
	object object // if it exists
}

// checkRecorded compares with etcd what the log has of the objects that changed last, and, if the last change was a
// deletion, of the object before it. An older snapshot that was restored, and written to since, has other ones: the
// same key may be written at the same revision again, but not in the same bytes, which have times and identities.
// rpctypes.ErrCompacted says that etcd does not have that revision any more: compare does it, with the whole state.
func (s *Store) checkRecorded(ctx context.Context) error {
	if s.isHidden() { // written by a program with another layout, maybe: a key may be another one
		return nil
	}
	facts, before, err := s.facts(ctx)
	if err != nil {
		return fmt.Errorf("read what is to be compared with etcd: %w", err)
	}
	err = s.checkFacts(ctx, append(slices.Clone(before), facts...))
	if len(before) > 0 && errors.Is(err, rpctypes.ErrCompacted) { // up to the deletion
		err = s.checkFacts(ctx, facts)
	}
	return err
}

// facts returns what the log has at the revision that it has reached: of the last object that changed, and of some
// that changed shortly before; and what there was before the last change, if that was a deletion.
func (s *Store) facts(ctx context.Context) (facts, before []fact, err error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	at, last := s.recorded(), s.last
	end()
	if at.rev == 0 {
		return nil, nil, nil
	}
	var keys []string
	if last.rev > 0 {
		keys = append(keys, last.key)
	}
	recent, err := s.recent(ctx, at.pos)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range slices.Backward(recent) {
		if len(keys) < mostChecked && !slices.Contains(keys, c.Key) {
			keys = append(keys, c.Key)
		}
		if len(before) > 0 || c.Key != last.key || !last.deleted || s.revision(c.Revision) != last.rev || c.Previous == nil {
			continue
		}
		o, err := decodeObject(c.Previous.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("%q before position %d: %w", c.Key, c.Revision, err)
		}
		before = []fact{{key: c.Key, rev: last.rev - 1, exists: true, object: o}}
	}
	bytes := 0
	for _, key := range keys {
		f, err := s.factOf(ctx, key, at)
		if err != nil {
			return nil, nil, err
		}
		if bytes += len(f.object.value); len(facts) == 0 || bytes <= checkedBytes {
			facts = append(facts, f)
		}
	}
	return facts, before, nil
}

// recent returns the changes of objects at the last positions of the log up to one, in order, with what there was
// before deletions; none, if the log has compacted them.
func (s *Store) recent(ctx context.Context, upTo int64) ([]store.Change, error) {
	var changes []store.Change
	err := s.each(ctx, store.From{
		After: max(upTo-recentChanges, s.log.Stats().Compacted, 0), UpTo: upTo,
		Match: func(key string) bool { return !strings.HasPrefix(key, own+"/") },
		Want:  func(c store.Change) (value, previous bool) { return false, c.Deleted },
	}, func(c store.Change) error {
		changes = append(changes, c)
		return nil
	})
	if _, compacted := errors.AsType[*store.CompactedError](err); compacted {
		return nil, nil
	}
	return changes, err
}

// factOf returns what the log says about a key at a moment.
func (s *Store) factOf(ctx context.Context, key string, at moment) (fact, error) {
	f := fact{key: key, rev: at.rev}
	page, err := s.log.Read(ctx, store.Query{Start: key, AtRevision: at.pos})
	if err != nil || len(page.Records) == 0 {
		return f, err
	}
	f.exists = true
	if f.object, err = decodeObject(page.Records[0].Value); err != nil {
		return f, fmt.Errorf("%q at position %d: %w", key, page.Records[0].ModRevision, err)
	}
	return f, nil
}

// checkFacts compares facts with what etcd has there. Errors: rpctypes.ErrCompacted, if it does not have it any more.
func (s *Store) checkFacts(ctx context.Context, facts []fact) error {
	var asked []fact
	var gets []clientv3.Op
	for _, f := range facts {
		key, err := s.opts.Layout.Key(f.key)
		if err != nil {
			continue // it was written by a program that served its resource
		}
		asked, gets = append(asked, f), append(gets, clientv3.OpGet(key, clientv3.WithRev(f.rev)))
	}
	if len(gets) == 0 {
		return nil
	}
	resp, err := anyOf(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).Then(gets...).Commit()
	})
	if err != nil {
		return fmt.Errorf("read %q at revision %d: %w", asked[0].key, asked[0].rev, withCause(ctx, err))
	}
	if err := s.checkAnswer(resp.Header); err != nil {
		return err
	}
	for i, f := range asked {
		if !f.holds(resp.Responses[i]) {
			return s.differs(f.key, f.rev)
		}
	}
	return nil
}

func (f fact) holds(found *etcdserverpb.ResponseOp) bool {
	kvs := found.GetResponseRange().GetKvs()
	if !f.exists || len(kvs) == 0 {
		return !f.exists && len(kvs) == 0
	}
	return f.object.is(kvs[0])
}

// is reports whether an object of the log is the one in etcd.
func (o object) is(kv *mvccpb.KeyValue) bool {
	return o.mod == kv.ModRevision && o.create == kv.CreateRevision && bytes.Equal(o.value, kv.Value)
}

func (s *Store) differs(key string, rev int64) error {
	return &HistoryError{Dir: s.opts.Dir, Found: fmt.Sprintf(
		"%q at revision %d is another one in the log than in etcd", key, rev)}
}
