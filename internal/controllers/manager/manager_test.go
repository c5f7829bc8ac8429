package manager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/controllers/manager"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	period = 2 * time.Second
	lasts  = 15 * time.Second
	step   = time.Second
)

// cluster has a Lease, and an Observer that runs.
type cluster struct {
	*manager.Observer
	t *testing.T

	mu    sync.Mutex // guards lease and fails
	lease *coordinationv1.Lease
	fails error

	works atomic.Bool
	log   bytes.Buffer // is read after the Observer has ended
	stop  func()
}

// observe runs an Observer in a bubble of synctest.
func observe(t *testing.T, lease *coordinationv1.Lease) *cluster {
	t.Helper()
	c := &cluster{t: t, lease: lease}
	c.Observer = manager.New(manager.Config{
		Read: c.read, Period: period, Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // ends with ctx
		ended <- c.Run(ctx, func(ctx context.Context) error {
			c.works.Store(true)
			<-ctx.Done()
			c.works.Store(false)
			return nil
		})
	}()
	c.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("observe the Lease: %v", err)
		}
	}
	return c
}

func (c *cluster) read(context.Context) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease.DeepCopy(), c.fails
}

func (c *cluster) set(lease *coordinationv1.Lease, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease, c.fails = lease, err
}

// after waits, and checks who works then.
func (c *cluster) after(wait time.Duration, works bool, holder, when string) {
	c.t.Helper()
	<-time.After(wait)
	synctest.Wait()
	if c.works.Load() != works || c.Holder() != holder {
		c.t.Errorf("%s: work runs: %t, want %t; the holder is %q, want %q", when, c.works.Load(), works, c.Holder(), holder)
	}
}

// held is a Lease that was renewed at a time of another clock.
func held(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(lasts / time.Second)),
		RenewTime: &metav1.MicroTime{Time: renewed},
	}}
}

func TestWorkBeginsAtOnceWhereNoManagerWas(t *testing.T) {
	for name, lease := range map[string]*coordinationv1.Lease{"no Lease": nil, "a released Lease": held("", time.Now())} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := observe(t, lease)
				c.after(0, true, "", "at the start")
				c.stop()
				if c.log.Len() > 0 {
					t.Errorf("it logs %s", c.log.String())
				}
			})
		})
	}
}

// TestALeaseThatIsThereAtTheStartIsAwaited: whatever time it has, by a clock that may be wrong.
func TestALeaseThatIsThereAtTheStartIsAwaited(t *testing.T) {
	for name, clock := range map[string]time.Duration{"yesterday": -24 * time.Hour, "tomorrow": 24 * time.Hour, "now": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := observe(t, held("a", time.Now().Add(clock)))
				c.after(lasts-time.Nanosecond, false, "a", "before the Lease has ended")
				c.after(time.Nanosecond, true, "", "when the Lease has ended")
				c.after(time.Hour, true, "", "later")
				c.stop()
			})
		})
	}
}

func TestWorkStandsStillWhileAManagerRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := observe(t, nil)
		c.after(time.Hour, true, "", "before a manager is there")
		clock := time.Now().Add(-time.Hour) // it is slow
		for i := range 60 {
			c.set(held("a", clock.Add(time.Duration(i)*step)), nil)
			<-time.After(step)
			if i >= int(period/step) {
				c.after(0, false, "a", "while it renews the Lease")
			}
		}
		c.set(held("b", clock), nil)
		c.after(period, false, "b", "when another one has taken it")
		c.after(lasts+step, true, "", "when that one does not renew it")
		c.set(held("a", clock), nil)
		c.after(period, false, "a", "when the first one has it again")
		c.set(held("", clock), nil)
		c.after(period, true, "", "when it has released it")
		c.stop()
		if n := strings.Count(c.log.String(), "\n"); n != 4 {
			t.Errorf("it has logged %d lines, want one for each of 4 changes:\n%s", n, c.log.String())
		}
	})
}

// TestALeaseThatCannotBeReadChangesNothing: who could work before goes on, and a start waits.
func TestALeaseThatCannotBeReadChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := observe(t, nil)
		c.after(0, true, "", "at the start")
		c.set(nil, errors.New("away"))
		c.after(time.Hour, true, "", "while the Lease cannot be read")
		c.set(held("a", time.Now()), nil)
		c.after(period, false, "a", "when it can be read")
		c.set(nil, errors.New("away"))
		c.after(time.Hour, false, "a", "while the Lease cannot be read again")
		c.set(held("a", time.Now()), nil)
		c.after(lasts-step, false, "a", "when it was renewed meanwhile")
		c.stop()
		if n := strings.Count(c.log.String(), "level=WARN"); n != 2 {
			t.Errorf("it has warned %d times, want once for each time it could not read:\n%s", n, c.log.String())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, fails: errors.New("away")}
		o := manager.New(manager.Config{Read: c.read, Period: period, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := o.Run(ctx, func(context.Context) error { return errors.New("it works") }); err != nil {
			t.Errorf("nothing is known of the Lease: %v", err)
		}
	})
}

func TestWorkThatFailsEndsTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		c := &cluster{t: t}
		o := manager.New(manager.Config{Read: c.read, Period: period, Logger: slog.New(slog.DiscardHandler)})
		if err := o.Run(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("run: %v, want %v", err, failed)
		}
	})
}
