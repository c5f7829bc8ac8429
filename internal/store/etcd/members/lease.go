package members

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// periods is how many periods a TTL has. One of them is the margin of sureUntil; with four left,
// three renewals in a row may fail before the leader has to stop.
const periods = 5

// lease is a lease of etcd that this replica holds.
//
// etcd counts a lease's TTL from when it handles a renewal, which is after the replica has sent it;
// its leader makes sure that it still is one before (etcdserver LeaseRenew), and a new leader counts
// from when it was elected. So etcd cannot end the lease before its TTL has passed since an answered
// renewal was sent, by a monotonic clock here. The margin, a fifth of the TTL, is for clocks of
// different speed, and for what has to notice the end. What the clock does not count is the time for
// which the whole machine was suspended. And whoever revokes the lease, or deletes its keys, by hand,
// ends it at once.
type lease struct {
	id   clientv3.LeaseID
	lost chan struct{} // closed when etcd does not have it any more, or it is not to be used any more

	// mu guards what follows.
	mu sync.Mutex
	// sureUntil is the time until which etcd cannot have ended it.
	sureUntil time.Time
}

// renewed records that etcd has answered a renewal, or the grant, sent at that time.
func (l *lease) renewed(sent time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.Add(ttl - ttl/periods); until.After(l.sureUntil) {
		l.sureUntil = until
	}
}

// sure returns for how long etcd cannot end the lease; not positive: it may have ended.
func (l *lease) sure() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.sureUntil)
}

// grant asks etcd for a lease.
func (m *Members) grant(ctx context.Context) (*lease, error) {
	ctx, cancel := context.WithTimeout(ctx, m.period())
	defer cancel()
	sent := time.Now()
	granted, err := m.client.Grant(ctx, int64((m.o.TTL+time.Second-1)/time.Second))
	if err != nil {
		return nil, fmt.Errorf("get a lease from etcd: %w", err)
	}
	l := &lease{id: granted.ID, lost: make(chan struct{})}
	l.renewed(sent, time.Duration(granted.TTL)*time.Second)
	return l, nil
}

// renew renews a lease, in one attempt at one member of etcd: the next attempt goes to another. The
// client's own KeepAliveOnce tries again without a pause, and its KeepAlive does not tell when what
// was answered had been sent. errLost: there is no such lease.
func (m *Members) renew(ctx context.Context, l *lease) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), m.period())
	defer cancel()
	stream, err := pb.NewLeaseClient(m.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return fmt.Errorf("renew the lease: %w", rpctypes.Error(err))
	}
	sent := time.Now()
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(l.id)}); err != nil {
		return fmt.Errorf("renew the lease: %w", rpctypes.Error(err))
	}
	answer, err := stream.Recv()
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound), err == nil && answer.TTL <= 0:
		return errLost
	case err != nil:
		return fmt.Errorf("renew the lease: %w", rpctypes.Error(err))
	}
	l.renewed(sent, time.Duration(answer.TTL)*time.Second)
	return nil
}

// keep renews a lease until ctx ends or etcd has ended it: errLost. Without an answer it goes on: etcd
// ends no lease while it has no leader.
func (m *Members) keep(ctx context.Context, l *lease) error {
	ticker := time.NewTicker(m.period())
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch err := m.renew(ctx, l); {
		case err == nil:
			m.move(l)
		case errors.Is(err, errLost), ctx.Err() != nil:
			return err
		default:
			m.logger.DebugContext(ctx, "renewal of the lease failed", errAttr(err))
		}
	}
}

// move says that the lease is another one, or is sure again.
func (m *Members) move(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = l
	close(m.moved)
	m.moved = make(chan struct{})
}

// sureLease waits until the replica is sure to hold a lease. Errors: ErrStopped, and ctx's cause.
func (m *Members) sureLease(ctx context.Context) (*lease, error) {
	for {
		m.mu.Lock()
		l, moved := m.lease, m.moved
		m.mu.Unlock()
		if l != nil && l.sure() > 0 {
			return l, nil
		}
		select {
		case <-moved:
		case <-m.stopped:
			return nil, ErrStopped
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
