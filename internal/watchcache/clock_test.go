package watchcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gapless-io/gapless/internal/watchcache"
)

func TestClockNeverGoesBack(t *testing.T) {
	clock := watchcache.NewClock(7)
	clock.Publish(9)
	clock.Publish(8)
	if got := clock.Published(); got != 9 {
		t.Errorf("Published() = %d after 9 and 8, want 9", got)
	}
}

func TestWaitPublishedReturnsOnlyOnceTheRevisionIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := watchcache.NewClock(1)
		done := make(chan error, 1)
		go func() { done <- clock.WaitPublished(t.Context(), 3) }()
		clock.Publish(2)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("WaitPublished(3) returned %v at 2", err)
		default:
		}
		clock.Publish(4)
		if err := <-done; err != nil {
			t.Errorf("WaitPublished(3) at 4: %v", err)
		}
		if err := clock.WaitPublished(t.Context(), 4); err != nil {
			t.Errorf("WaitPublished(4) at 4: %v", err)
		}
	})
}

func TestWaitPublishedReturnsTheCauseOfTheContext(t *testing.T) {
	why := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	clock := watchcache.NewClock(1)
	if err := clock.WaitPublished(ctx, 2); !errors.Is(err, why) {
		t.Errorf("WaitPublished with a cancelled context: %v, want its cause", err)
	}
	clock.Publish(2) // no waiter is left
}

func TestWaitWhilePublishingEndsWithThePublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, stopped := watchcache.NewClock(1), make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- clock.WaitWhilePublishing(t.Context(), 3, stopped) }()
		clock.Publish(2)
		synctest.Wait()
		close(stopped)
		if err := <-done; !errors.Is(err, watchcache.ErrStopped) {
			t.Errorf("got %v after the publisher has stopped, want ErrStopped", err)
		}
		clock.Publish(3) // no waiter is left
		if err := clock.WaitWhilePublishing(t.Context(), 3, stopped); err != nil {
			t.Errorf("got %v for what is published, want nil", err)
		}
	})
}
