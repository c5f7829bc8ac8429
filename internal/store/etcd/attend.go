package etcd

import (
	"context"
	"errors"
	"time"
)

// Nothing ends a write that a silent server has taken but the keep-alive of its connection, after 40 s: it cannot be
// repeated, as a read can. So it is given up before that; whether it takes effect is not known then.
const (
	// attendAfter is after what time without an answer to a write it is looked whether etcd answers reads.
	attendAfter = 2 * time.Second
	// attendFor is after what more time a write is given up although etcd answers reads: then only its member is
	// silent. A member that is not says after 5 s and two election timeouts that it has given up (etcd server/config
	// ReqTimeout).
	attendFor = 15 * time.Second
)

var (
	errNoAnswers = errors.New("etcd has not answered the write, nor a read that was sent later")
	errNoAnswer  = errors.New("a member of etcd has not answered the write")
)

// attended returns the context of a call that cannot be repeated, which ends once it is given up, with errNoAnswers
// or errNoAnswer as its cause. The caller calls end after it.
func (s *Store) attended(ctx context.Context) (_ context.Context, end func()) {
	ctx, giveUp := context.WithCancelCause(ctx)
	slow := time.AfterFunc(attendAfter, func() { s.attend(ctx, giveUp) }) // ends with ctx
	return ctx, func() {
		slow.Stop()
		giveUp(nil)
	}
}

// attend gives a call up when a read that was sent later is not answered in time. All calls share these reads.
func (s *Store) attend(ctx context.Context, giveUp context.CancelCauseFunc) {
	last := time.NewTimer(attendFor)
	defer last.Stop()
	for {
		r := s.reads.join()
		select {
		case <-r.done:
		case <-last.C:
			giveUp(errNoAnswer)
			return
		case <-ctx.Done():
			return
		}
		if errors.Is(r.err, errReadTimeout) {
			giveUp(errNoAnswers)
			return
		}
		select {
		case <-time.After(attendAfter):
		case <-last.C:
			giveUp(errNoAnswer)
			return
		case <-ctx.Done():
			return
		}
	}
}
