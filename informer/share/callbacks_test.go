package share_test

import (
	"context"
	"errors"
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

// TestReleaseWaitsForACallOfAHandlerThatIsBeingAdded: another lease holds the informer.
func TestReleaseWaitsForACallOfAHandlerThatIsBeingAdded(t *testing.T) {
	s := newShelf()
	pool, _ := running(t, share.Config{})
	lease, other := take(t, pool, s.source("books")), take(t, pool, s.source("books"))
	released := make(chan error, 1)
	handle := func(context.Context, informer.Event[*book]) error { return nil }
	r := share.Begun(lease, handle, func(within context.Context, err error) {
		must(t, err)
		go func() { released <- lease.Release(context.WithoutCancel(t.Context())) }() //nolint:contextcheck // it is another caller
		select {
		case <-within.Done(): // Release has begun
		case <-time.After(10 * time.Second):
		}
		if cause := context.Cause(within); !errors.Is(cause, share.ErrReleased) {
			t.Errorf("the cause of the call's end is %v", cause)
		}
		// It would return now: nothing but this call lets it wait.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := lease.Release(ctx); err == nil { //nolint:contextcheck // the context of the call has ended
			t.Error("Release returns during the call")
		}
	})
	must(t, <-released)
	if r.Err() == nil {
		t.Error("the handler is not stopped")
	}
	share.Begun(lease, handle, func(_ context.Context, err error) {
		if err == nil {
			t.Error("a call begins after Release")
		}
	})
	must(t, other.Release(t.Context()))
}

func TestTheCallbackOfAnIndexThatPanicsGetsTheIndex(t *testing.T) {
	s := newShelf()
	s.put("a", 1)
	pool, _ := running(t, share.Config{})
	var lease *share.Lease[*book]
	index := func() (*informer.Index[*book, int], error) {
		return share.NewIndex1(lease, "panics", func(b *book) int { panic(b.Name) })
	}
	indices := make(chan *informer.Index[*book, int], 10)
	lease, err := share.Get(pool, s.source("books"), informer.OnError(func(in informer.Incident) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if x, err := index(); err != nil {
				t.Errorf("make the index: %v", err)
			} else {
				indices <- x
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: NewIndex of the same name does not return", in.Kind)
		}
	}))
	must(t, err)
	must(t, lease.WaitSynced(t.Context()))
	x, err := index()
	must(t, err)
	select { // the informer may be the one that reports it
	case got := <-indices:
		if got != x {
			t.Error("the callback got another index")
		}
	case <-time.After(10 * time.Second):
		t.Error("the panic is not reported")
	}
}
