package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// Run keeps the replica registered until ctx ends, which is no error, and removes the registration
// then. It is called once. Errors: *TwiceError; the *Migration that has begun before the replica has registered.
//
// Where etcd has ended the lease, because this replica was cut off for longer than the TTL, it
// registers again.
func (m *Members) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := m.registered(ctx)
		if twice, is := errors.AsType[*TwiceError](err); is {
			return twice
		}
		if migration, is := errors.AsType[*Migration](err); is {
			return migration
		}
		if ctx.Err() == nil {
			m.logger.WarnContext(ctx, "this replica is not registered in etcd", errAttr(err))
			m.pause(ctx)
		}
	}
	return nil
}

// registered registers the replica and reports for it, until ctx ends or that is impossible.
func (m *Members) registered(ctx context.Context) error {
	lease, err := m.grant(ctx)
	if err != nil {
		return err
	}
	defer m.revoke(ctx, lease)
	revision := m.o.Reached()
	if err := m.register(ctx, lease, revision); err != nil {
		return err
	}
	m.logger.InfoContext(ctx, "registered in etcd", slog.String("replica", m.o.Replica.ID))
	asked := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	// They are this function's, and end with ctx or the first of them.
	group.Go(func() error { return m.keep(ctx, lease) })
	group.Go(func() error { return m.listen(ctx, asked) })
	group.Go(func() error { return m.report(ctx, lease, reports{asked, revision}) })
	return group.Wait()
}

// encode returns the replica's record.
func (m *Members) encode(revision int64) (string, error) {
	r := record{Replica: m.o.Replica, Process: m.process}
	r.Revision = revision
	text, err := json.Marshal(r)
	return string(text), err
}

// register writes the record under a new lease, unless a migration is noted: as Migration.Begin notes none where a
// replica is registered, one of the two always sees the other. What was there is of a former process.
func (m *Members) register(ctx context.Context, lease clientv3.LeaseID, revision int64) error {
	value, err := m.encode(revision)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.period())
	defer cancel()
	note := migrationKey(m.o.Prefix)
	resp, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(note), "=", 0)).
		Then(clientv3.OpPut(m.recordKey(), value, clientv3.WithLease(lease))).
		Else(clientv3.OpGet(note)).
		Commit()
	if err == nil && !resp.Succeeded {
		var migration *Migration
		if migration, err = decodeMigration(m.o.Prefix, resp.Responses[0].GetResponseRange().Kvs[0]); err == nil {
			err = migration
		}
	}
	if err != nil {
		return fmt.Errorf("register in etcd: %w", err)
	}
	return nil
}

// update writes the record, if it is still there under the lease. Errors: errLost, *TwiceError.
func (m *Members) update(ctx context.Context, lease clientv3.LeaseID, revision int64) error {
	value, err := m.encode(revision)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.period())
	defer cancel()
	key := m.recordKey()
	resp, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.LeaseValue(key), "=", lease)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(lease))).
		Else(clientv3.OpGet(key)).
		Commit()
	switch {
	case err != nil:
		return fmt.Errorf("report to etcd: %w", err)
	case resp.Succeeded:
		return nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return errLost
	}
	var other record
	if err := json.Unmarshal(kvs[0].Value, &other); err != nil {
		return fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if other.Process == m.process { // it came under an earlier lease, late
		return errLost
	}
	return &TwiceError{ID: other.ID, URL: other.URL}
}

// reports is what report needs: when compactors ask, and what was reported already.
type reports struct {
	asked    <-chan struct{}
	revision int64
}

// report reports how far the replica's log is, until ctx ends: from time to time if that has changed,
// and at once when a compactor asks.
func (m *Members) report(ctx context.Context, lease clientv3.LeaseID, r reports) error {
	ticker := time.NewTicker(m.o.ReportEvery)
	defer ticker.Stop()
	for {
		var revision int64
		select {
		case <-ticker.C:
			revision = m.o.Reached()
		case <-r.asked:
			revision = m.catchUp(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if revision == r.revision {
			continue
		}
		err := m.update(ctx, lease, revision)
		switch _, twice := errors.AsType[*TwiceError](err); {
		case err == nil:
			r.revision = revision
		case twice, errors.Is(err, errLost):
			return err
		default: // with the next report
			m.logger.DebugContext(ctx, "report to etcd failed", errAttr(err))
		}
	}
}

func (m *Members) catchUp(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	revision, err := m.o.CatchUp(ctx)
	if err != nil {
		m.logger.DebugContext(ctx, "the log does not catch up with etcd", errAttr(err))
		return m.o.Reached()
	}
	return revision
}

// listen passes on, until ctx ends, that a compactor asks how far this replica is.
func (m *Members) listen(ctx context.Context, asked chan<- struct{}) error {
	for {
		err := m.followFromNow(ctx, m.askKey(), func(*clientv3.Event) bool {
			select {
			case asked <- struct{}{}:
			default: // one is waiting
			}
			return true
		})
		m.logger.DebugContext(ctx, "watch of the compactors' question ended", errAttr(err))
		if !m.pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// followFromNow is follow, for the changes from now on.
func (m *Members) followFromNow(ctx context.Context, key string, changed func(*clientv3.Event) bool) error {
	now, err := m.read(ctx, key)
	if err != nil {
		return err
	}
	return m.follow(ctx, key, now.Header.Revision, changed)
}

// read reads a key, linearizably.
func (m *Members) read(ctx context.Context, key string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, m.period())
	defer cancel()
	resp, err := m.client.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", key, err)
	}
	return resp, nil
}

func errAttr(err error) slog.Attr { return slog.Any("err", err) }
