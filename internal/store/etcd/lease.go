package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Objects that expire share leases, because each lease costs etcd much: the rule is that of
// apiserver storage/etcd3/lease_manager.go.
const (
	// leaseObjects is how many objects have one lease at most.
	leaseObjects = 1000
	// longestReuse is for how long a lease is given to more objects at most: a twentieth of the time
	// to live, and no more than this.
	longestReuse = time.Minute
)

// leases are those of objects that expire, one for each time to live.
type leases struct {
	client *clientv3.Client

	mu   sync.Mutex
	last map[time.Duration]*lease
}

// lease is the last lease for one time to live. Its turn holds one token: the sender may use it.
type lease struct {
	turn    chan struct{}
	id      clientv3.LeaseID
	expires time.Time
	objects int
}

func newLeases(client *clientv3.Client) *leases {
	return &leases{client: client, last: map[time.Duration]*lease{}}
}

func (l *leases) of(ttl time.Duration) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[ttl] == nil {
		l.last[ttl] = &lease{turn: make(chan struct{}, 1)}
	}
	return l.last[ttl]
}

// take returns a lease with which an object lives for at least ttl, and at most a twentieth more.
func (l *leases) take(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	ttl = max(ttl, time.Second).Truncate(time.Second)
	last := l.of(ttl)
	select {
	case last.turn <- struct{}{}:
		defer func() { <-last.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	reuse := min(ttl/20, longestReuse).Truncate(time.Second)
	now := time.Now()
	last.objects++
	if last.objects <= leaseObjects && now.Add(ttl).Before(last.expires) && now.Add(ttl+reuse).After(last.expires) {
		return last.id, nil
	}
	granted, err := l.client.Grant(ctx, int64((ttl+reuse)/time.Second))
	if err != nil {
		return 0, fmt.Errorf("take a lease of %v from etcd: %w", ttl+reuse, withCause(ctx, err))
	}
	last.id, last.expires, last.objects = granted.ID, now.Add(ttl+reuse), 1
	return last.id, nil
}

// lost forgets a lease that etcd does not have.
func (l *leases) lost(ctx context.Context, id clientv3.LeaseID) {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.last))
	l.mu.Unlock()
	for _, last := range all {
		select {
		case last.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if last.id == id {
			last.expires = time.Time{} // the next one takes another
		}
		<-last.turn
	}
}
