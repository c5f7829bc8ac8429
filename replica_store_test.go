package gapless

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// TestAnEtcdThatRefusesIsNotAskedWithoutAPause: it may refuse at once, as for want of permission. When it answers
// again, that is noticed.
func TestAnEtcdThatRefusesIsNotAskedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var answers atomic.Bool
		s := newPatientStore(nil, DefaultEtcdHealthTimeout)
		s.read = func(context.Context) (int64, error) {
			asked.Add(1)
			if answers.Load() {
				return 7, nil
			}
			return 0, &store.UnavailableError{Reading: true, Cause: errors.New("permission denied")}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.run(ctx) }() // ends with ctx
		const during = 10 * time.Second
		for range 100 {
			if _, err := s.Progress(ctx); err == nil {
				t.Error("it gives a revision that etcd has not given")
			}
			<-time.After(during / 100)
		}
		if n := asked.Load(); n < 2 || n > int64(during/askAgain)+3 {
			t.Errorf("etcd was asked %d times in %v", n, during)
		}
		answers.Store(true)
		<-time.After(askAgain)
		synctest.Wait()
		if rev, err := s.Progress(ctx); err != nil || rev != 7 {
			t.Errorf("etcd answers again: %d, %v", rev, err)
		}
		before := asked.Load()
		<-time.After(during)
		if n := asked.Load() - before; n != 0 {
			t.Errorf("etcd was asked %d times although it answers", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ask for etcd: %v", err)
		}
	})
}
