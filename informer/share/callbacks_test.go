package share_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
)

func TestNoIncidentIsReportedUnderTheLockOfALease(t *testing.T) {
	s := newShelf()
	pool, _ := running(t, share.Config{})
	handle := func(context.Context, informer.Event[*book]) error { return nil }
	var lease *share.Lease[*book]
	reported := 0
	lease, err := share.Get(pool, s.source("books"), informer.OnError(func(informer.Incident) {
		reported++
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = lease.Handle(handle)
			_ = lease.Release(t.Context())
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("a call of the lease does not return")
		}
	}))
	must(t, err)
	r := lease.Handle(handle, informer.Where(func(*corev1.Pod) bool { return true }))
	if r.Err() == nil || reported != 1 {
		t.Errorf("the handler ended with %v, after %d incidents", r.Err(), reported)
	}
}
