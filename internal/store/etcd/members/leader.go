package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errGone is why work ends whose leader's key was deleted, or is another's.
var errGone = errors.New("the leader's key in etcd is not this replica's any more")

// Lead runs work whenever this replica is the leader, until ctx ends, which is no error, or work
// returns before its own context ends: then it returns what work returned. It needs Run. One Lead
// runs at a time; another waits. Errors besides: ErrStopped.
//
// The context of work ends before another replica can become the leader: see lease. Work that does
// not stop then, or whose process was paused and goes on before it notices, works beside the new
// leader for a moment. That does no harm as long as each of its writes is conditional on the version
// that it has read: of two that collect the same garbage, one gets a conflict. So leadership saves
// work; it protects nothing.
//
// Another replica follows at once when ctx ends, when work has returned. When the process or its
// machine dies, it follows after the TTL and about a second, and after up to two of them if etcd's
// own leader changes as well, because a new one lets every lease begin again.
func (m *Members) Lead(ctx context.Context, work func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		l, err := m.sureLease(ctx)
		switch {
		case errors.Is(err, ErrStopped):
			return err
		case err != nil:
			return nil // ctx has ended
		}
		done, err := m.lead(ctx, l, work)
		if done {
			return err
		}
		if err != nil {
			m.logger.DebugContext(ctx, "the election failed", errAttr(err))
			m.pause(ctx)
		}
	}
	return nil
}

// lead takes part in one election: it runs work, or waits until the leader is gone. done means that
// work has ended by itself.
func (m *Members) lead(ctx context.Context, l *lease, work func(ctx context.Context) error) (done bool, err error) {
	select {
	case m.leading <- struct{}{}:
	case <-m.stopped:
		return false, nil
	case <-ctx.Done():
		return false, nil
	}
	created, ours, err := m.campaign(ctx, l)
	if !ours {
		<-m.leading
		if err != nil {
			return false, err
		}
		m.awaitEnd(ctx, created)
		return false, nil
	}
	defer func() { <-m.leading }()
	defer m.resign(ctx, created)
	return m.work(ctx, term{l, created}, work)
}

// campaign returns the revision that created the leader's key, and whether it is this replica's.
func (m *Members) campaign(ctx context.Context, l *lease) (created int64, ours bool, err error) {
	select {
	case <-l.lost: // while the slot was taken
		return 0, false, errLost
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, m.period())
	defer cancel()
	key := m.leaderKey()
	resp, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, m.o.Replica.ID, clientv3.WithLease(l.id))).
		Else(clientv3.OpGet(key)).
		Commit()
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("become the leader: %w", err)
	case resp.Succeeded:
		return resp.Header.Revision, true, nil
	}
	kv := resp.Responses[0].GetResponseRange().Kvs[0]
	// It is ours already where the answer to an earlier attempt was lost, or etcd was away.
	return kv.CreateRevision, kv.Lease == int64(l.id), nil
}

// term is the time for which this replica has the leader's key.
type term struct {
	lease   *lease
	created int64 // the revision of the key
}

// work runs work during a term. done means that it has ended by itself.
func (m *Members) work(ctx context.Context, t term, work func(ctx context.Context) error) (done bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	// They are this function's, and end with ctx.
	wg.Go(func() { cancel(t.end(ctx)) })
	wg.Go(func() {
		m.awaitEnd(ctx, t.created)
		cancel(errGone)
	})
	m.logger.InfoContext(ctx, "this replica leads", slog.Int64("term", t.created))
	err = work(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	wg.Wait()
	if cause == nil {
		return true, err
	}
	m.logger.InfoContext(ctx, "this replica does not lead any more", slog.Int64("term", t.created), errAttr(cause))
	if err != nil && !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		m.logger.WarnContext(ctx, "the work of the leader ended with an error", errAttr(err))
	}
	return false, nil
}

// end waits until the lease is not sure to be held any longer, or ctx ends, and returns which.
func (t term) end(ctx context.Context) error {
	timer := time.NewTimer(t.lease.sure())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			sure := t.lease.sure()
			if sure <= 0 {
				return errors.New("etcd has not answered in time that the lease is renewed")
			}
			timer.Reset(sure)
		case <-t.lease.lost:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// resign deletes the leader's key, so that another replica follows at once.
func (m *Members) resign(ctx context.Context, created int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.period())
	defer cancel()
	key := m.leaderKey()
	_, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", created)).
		Then(clientv3.OpDelete(key)).
		Commit()
	if err != nil {
		m.logger.DebugContext(ctx, "the leader's key was not deleted", errAttr(err))
	}
}

// awaitEnd waits until the leader's key that a revision created is gone, or ctx ends.
func (m *Members) awaitEnd(ctx context.Context, created int64) {
	key := m.leaderKey()
	for {
		now, err := m.read(ctx, key)
		if err == nil {
			if len(now.Kvs) == 0 || now.Kvs[0].CreateRevision != created {
				return
			}
			err = m.follow(ctx, key, now.Header.Revision, func(event *clientv3.Event) bool {
				return event.Type != clientv3.EventTypeDelete
			})
		}
		if err == nil || !m.pause(ctx) {
			return
		}
	}
}
