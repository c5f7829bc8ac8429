//go:build unix

package dropin

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lookEvery is how often a program looks whether its parent lives.
const lookEvery = 100 * time.Millisecond

// errParentGone is the cause of the end of a context.
var errParentGone = errors.New("the process that started this one has ended")

// whileParentLives returns a context that also ends when the process that started this one has
// ended: a test that is killed stops nothing. A process that leads a session was detached on
// purpose, as kwokctl and setsid do it, and stays.
//
// It looks, instead of asking Linux for a signal (PR_SET_PDEATHSIG): that is sent when the
// thread ends that started the process, which in a Go program ends before the process does.
func whileParentLives(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() {
		return ctx, func() { stop(nil) }
	}
	parent := os.Getppid()
	go func() { // ends with ctx, which its caller ends
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		stop(errParentGone)
	}()
	return ctx, func() { stop(nil) }
}
