package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// errLost says that a lease has ended, and with it the registration.
var errLost = errors.New("etcd has ended the lease of this replica")

// grant asks etcd for a lease.
func (m *Members) grant(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, m.period())
	defer cancel()
	granted, err := m.client.Grant(ctx, int64((m.o.TTL+time.Second-1)/time.Second))
	if err != nil {
		return 0, fmt.Errorf("get a lease from etcd: %w", err)
	}
	return granted.ID, nil
}

// renew renews a lease, in one attempt at one member of etcd: the next attempt goes to another. The
// client's own KeepAliveOnce tries again without a pause. errLost: there is no such lease.
func (m *Members) renew(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), m.period())
	defer cancel()
	stream, err := pb.NewLeaseClient(m.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return fmt.Errorf("renew the lease: %w", rpctypes.Error(err))
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
		return fmt.Errorf("renew the lease: %w", rpctypes.Error(err))
	}
	answer, err := stream.Recv()
	switch {
	case err == nil && answer.TTL > 0:
		return nil
	case err == nil, errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound):
		return errLost
	default:
		return fmt.Errorf("renew the lease: %w", rpctypes.Error(err))
	}
}

// keep renews a lease until ctx ends or etcd has ended it: errLost. Without an answer it goes on: etcd
// ends no lease while it has no leader, and a new leader begins each again.
func (m *Members) keep(ctx context.Context, lease clientv3.LeaseID) error {
	for m.pause(ctx) {
		switch err := m.renew(ctx, lease); {
		case errors.Is(err, errLost):
			return err
		case err != nil:
			m.logger.DebugContext(ctx, "renewal of the lease failed", errAttr(err))
		}
	}
	return context.Cause(ctx)
}

// revoke ends a lease, and with it the registration. If that fails, it ends by itself.
func (m *Members) revoke(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.period())
	defer cancel()
	if _, err := m.client.Revoke(ctx, lease); err != nil {
		m.logger.DebugContext(ctx, "the lease was not revoked", errAttr(err))
	}
}
