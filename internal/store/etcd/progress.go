package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store"
)

// reads are the calls that wait for a linearizable read of etcd's revision. One read answers all calls
// that began before it was sent.
type reads struct {
	next  chan *round   // holds the round that calls can still join
	asked chan struct{} // holds one token: there is a round to be read
	// wanted holds one token: somebody waits for a revision that the watch has not reached.
	wanted chan struct{}
	sent   atomic.Int64 // how many were sent
}

// round is one read.
type round struct {
	done chan struct{} // closed when rev and err are set
	rev  int64
	err  error
}

func newReads() *reads {
	r := &reads{next: make(chan *round, 1), asked: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
	r.next <- &round{done: make(chan struct{})}
	return r
}

// join returns the round that begins after the call.
func (r *reads) join() *round {
	next := <-r.next
	r.next <- next
	poke(r.asked)
	return next
}

// take returns the round, which nobody can join any more.
func (r *reads) take() *round {
	next := <-r.next
	r.next <- &round{done: make(chan struct{})}
	return next
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// readTimeout bounds one read of etcd's revision, after which all who wait for it are refused.
const readTimeout = 5 * time.Second

var errReadTimeout = errors.New("etcd has not answered a read")

// readAnyway is how often etcd's revision is read although nobody waits for it, for Age.
const readAnyway = 2 * time.Second

// readEtcd reads etcd's revision for those who wait for it, until ctx ends.
func (s *Store) readEtcd(ctx context.Context) {
	anyway := time.NewTicker(readAnyway)
	defer anyway.Stop()
	for {
		select {
		case <-s.reads.asked:
		case <-anyway.C:
		case <-ctx.Done():
			return
		}
		anyway.Reset(readAnyway)
		r := s.reads.take()
		s.reads.sent.Add(1)
		r.rev, r.err = s.readRevision(ctx)
		close(r.done)
	}
}

func (s *Store) readRevision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(clientv3.WithRequireLeader(ctx), readTimeout, errReadTimeout)
	defer cancel()
	at, _ := s.seen()
	sent := time.Now()
	resp, err := s.ask(ctx)
	if err != nil {
		return 0, &store.UnavailableError{Reading: true, Cause: fmt.Errorf("read etcd's revision: %w", withCause(ctx, err))}
	}
	if err := s.checkAnswer(resp.Header); err != nil {
		return 0, err
	}
	if resp.Header.Revision < at.rev {
		err := s.wentBack(resp.Header.Revision, at.rev)
		s.fail(err)
		return 0, err
	}
	s.noteRead(sent, resp.Header.Revision)
	return resp.Header.Revision, nil
}

// noteRead notes for Age that a read that was sent at a time has found a revision.
func (s *Store) noteRead(sent time.Time, rev int64) {
	at, _ := s.seen()
	s.health.read(sentRead{sent: sent, rev: rev}, at.rev)
}

const (
	// askOther is after which time without an answer the next member is asked too.
	askOther = 500 * time.Millisecond
	// mostAsked is how many are asked at once.
	mostAsked = 3
)

// ask makes a linearizable read.
func (s *Store) ask(ctx context.Context) (*clientv3.GetResponse, error) {
	return anyOf(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, s.prefix, clientv3.WithKeysOnly())
	})
}

// anyOf calls something that can be repeated. The client takes one member after the other, and one that was cut off
// silently counts as connected until grpc's keep-alive finds out: everybody would wait for it, because all who read
// share a read. So others are asked meanwhile, and the first answer is taken.
func anyOf[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		resp T
		err  error
	}
	answers := make(chan answer, mostAsked)
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := func() { // ends with ctx
		resp, err := call(ctx)
		answers <- answer{resp, err}
	}
	again := time.NewTicker(askOther)
	defer again.Stop()
	asking.Go(next)
	for asked, open := 1, 1; ; {
		select {
		case a := <-answers:
			if open--; a.err == nil || open == 0 {
				return a.resp, a.err
			}
		case <-again.C:
			if asked < mostAsked {
				asked, open = asked+1, open+1
				asking.Go(next)
			}
		}
	}
}

// Progress implements store.Store: one read of etcd answers all calls that wait for it, and the
// replica's log is as far as that when it returns. *store.UnavailableError says that etcd cannot be read.
func (s *Store) Progress(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	select {
	case <-s.closing:
		return 0, store.ErrClosed
	default:
	}
	r := s.reads.join()
	select {
	case <-r.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-s.closing:
		return 0, store.ErrClosed
	}
	if r.err != nil {
		return 0, r.err
	}
	s.want(r.rev)
	at, err := s.wait(ctx, r.rev)
	return at.rev, err
}

// want has the watch asked for its progress until it has reached a revision.
func (s *Store) want(rev int64) {
	s.mu.Lock()
	more := rev > s.visible.rev && rev > s.wanted
	s.wanted = max(s.wanted, rev)
	s.mu.Unlock()
	if more {
		poke(s.reads.wanted)
	}
}
