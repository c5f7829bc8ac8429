package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// TestLeasesThatAreGoneAreNoFailureOfTheServer: somebody revokes every lease as soon as it is there.
func TestLeasesThatAreGoneAreNoFailureOfTheServer(t *testing.T) {
	member := startEtcd(t)
	o := optionsFor(member.URL())
	o.TTL = func(string) time.Duration { return time.Hour }
	s := run(t, o)
	client := connect(t, member.URL())
	ctx, cancel := context.WithTimeout(within(t), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				leases, err := client.Leases(ctx)
				if err != nil {
					continue // the end
				}
				for _, lease := range leases.Leases {
					_, _ = client.Revoke(ctx, lease.ID) // another one was first
				}
			}
		})
	}
	for w := range 8 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := s.Commit(ctx, store.Txn{Key: fmt.Sprintf("events/%d-%d", w, n), Value: []byte("1")})
				if _, passes := errors.AsType[*store.UnavailableError](err); err != nil && !passes && ctx.Err() == nil &&
					!errors.Is(err, store.ErrOutcomeUnknown) {
					t.Errorf("a write whose lease is gone gives %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestALastingWriteHasNoLease: and the next one of the object has one again.
func TestALastingWriteHasNoLease(t *testing.T) {
	member := startEtcd(t)
	o := optionsFor(member.URL())
	o.TTL = func(string) time.Duration { return time.Hour }
	s := run(t, o)
	client := connect(t, member.URL())
	var last int64
	for i, lasting := range []bool{false, true, false} {
		done, err := s.Commit(within(t), store.Txn{
			Key: "events/a", Value: fmt.Append(nil, i), ExpectedModRevision: last, Lasting: lasting,
		})
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		last = done.Revision
		now, err := client.Get(within(t), "/registry/events/a")
		if err != nil || len(now.Kvs) != 1 || (now.Kvs[0].Lease == 0) != lasting {
			t.Errorf("after write %d, lasting (%t), etcd has %+v, %v", i, lasting, now, err)
		}
	}
}
