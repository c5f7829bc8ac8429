package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Watch is what one follower of a crowd asks for.
type Watch struct {
	Path     string // collection, with its query except for the watch's own parameters
	Accept   string // media type of the answer; empty is application/json
	Follower *Follower
}

// Crowd is a set of watches that are open at once. Over HTTP/1.1 each has a
// connection of its own; over HTTP/2 they share a number of them. A watch that the
// server ends is resumed from its last resourceVersion, and counted.
type Crowd struct {
	target wire.Target
	loops  []*wire.Loop // HTTP/1.1: one for each processor
	shared []*line      // HTTP/2
	all    []*Watch
	joined sync.WaitGroup

	ended atomic.Bool // the crowd goes; connections that break now are no cuts

	// mu guards conns, the connections to close, and fails, what went wrong.
	mu    sync.Mutex
	conns map[wire.Conn]struct{}
	fails []error
}

// line is one shared connection, which is dialed again after it broke.
type line struct {
	mu   sync.Mutex
	conn wire.Conn
}

// Open opens the watches, from the given resourceVersion, and returns when each has
// its answer's header. conns is the number of HTTP/2 connections; 0 gives every
// watch its own over HTTP/1.1. The crowd must be closed.
func Open(ctx context.Context, t wire.Target, conns int, version string, watches []Watch) (*Crowd, error) {
	from, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resourceVersion to watch from: %w", err)
	}
	c := &Crowd{target: t, conns: map[wire.Conn]struct{}{}}
	for range conns {
		c.shared = append(c.shared, &line{})
	}
	for conns == 0 && len(c.loops) < runtime.GOMAXPROCS(0) {
		loop, err := wire.NewLoop(t)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.loops = append(c.loops, loop)
	}
	for i := range watches {
		w := &watches[i]
		w.Follower.From(from)
		c.all = append(c.all, w)
	}
	err = InParallel(ctx, 16, len(watches), func(_ context.Context, _, i int) error { // the watches outlive it
		opened := make(chan error, 1)
		c.joined.Go(func() { // ends with Close
			if err := c.follow(ctx, i, func() { opened <- nil }); err != nil {
				opened <- err
			}
			close(opened)
		})
		return <-opened
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// follow keeps one watch open until the crowd goes. It returns an error if the
// first try fails.
func (c *Crowd) follow(ctx context.Context, i int, opened func()) error {
	w, f := c.all[i], c.all[i].Follower
	first := true
	signal := func() {
		if first {
			opened()
		}
		first = false
	}
	for retries := 0; ; retries++ {
		before := f.Events()
		err := c.once(ctx, i, w, signal)
		switch {
		case c.ended.Load():
			return nil
		case first:
			return err
		case expired(err):
			f.verdict.Expired++
			if err := c.renew(ctx, i); err != nil {
				c.fail(fmt.Errorf("watch %d: after 410: %w", i, err))
				return nil
			}
		}
		f.verdict.Cut++
		f.partial = f.partial[:0]
		if f.Events() > before {
			retries = 0
		}
		if retries > 100 {
			c.fail(fmt.Errorf("watch %d: %w", i, err))
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(retries) * time.Millisecond):
		}
	}
}

func expired(err error) bool {
	refused := (*wire.StatusError)(nil)
	return errors.Is(err, errExpired) || errors.As(err, &refused) && refused.Status == http.StatusGone
}

// renew restarts an expired watch from now: the events in between are counted as missing
// when the next event arrives.
func (c *Crowd) renew(ctx context.Context, i int) error {
	conn, err := c.target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return err
	}
	defer conn.Close()
	version, err := Current(conn)
	if err != nil {
		return err
	}
	c.all[i].Follower.version, err = strconv.ParseUint(version, 10, 64)
	return err
}

// once opens one watch and reads it to its end.
func (c *Crowd) once(ctx context.Context, i int, w *Watch, opened func()) error {
	sep := "?"
	if strings.Contains(w.Path, "?") {
		sep = "&"
	}
	r := wire.Request{
		Accept: w.Accept,
		Path:   w.Path + sep + "watch=1&timeoutSeconds=3600&resourceVersion=" + strconv.FormatUint(w.Follower.version, 10),
		Opened: opened,
	}
	if len(c.loops) > 0 {
		done := make(chan error, 1)
		if err := c.loops[i%len(c.loops)].Start(ctx, r, w.Follower, func(err error) { done <- err }); err != nil {
			return err
		}
		return <-done
	}
	conn, err := c.connect(ctx, i)
	if err != nil {
		return err
	}
	_, err = conn.Do(r, w.Follower)
	if conn.Broken() {
		c.replace(i, conn)
	}
	return err
}

// connect returns the connection of a watch.
func (c *Crowd) connect(ctx context.Context, i int) (wire.Conn, error) {
	l := c.shared[i%len(c.shared)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		conn, err := c.dial(ctx)
		if err != nil {
			return nil, err
		}
		l.conn = conn
	}
	return l.conn, nil
}

func (c *Crowd) dial(ctx context.Context) (wire.Conn, error) {
	conn, err := c.target.Dial(ctx, wire.HTTP2)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() {
		conn.Close()
		return nil, errors.New("the crowd has gone")
	}
	c.conns[conn] = struct{}{}
	return conn, nil
}

// replace gives up a shared connection that is broken.
func (c *Crowd) replace(i int, conn wire.Conn) {
	l := c.shared[i%len(c.shared)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn = nil
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
		conn.Close()
	}
}

func (c *Crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = append(c.fails, err)
}

// Events returns how many events have come to all.
func (c *Crowd) Events() int64 {
	var n int64
	for _, w := range c.all {
		n += w.Follower.Events()
	}
	return n
}

// Behind returns how many watches have not passed the position that want gives for
// each.
func (c *Crowd) Behind(want func(f *Follower) int64) int {
	n := 0
	for _, w := range c.all {
		if w.Follower.Position() < want(w.Follower) {
			n++
		}
	}
	return n
}

// Drained waits until every watch has passed the position that want gives for it,
// or for the given time. It returns how many have not.
func (c *Crowd) Drained(ctx context.Context, within time.Duration, want func(f *Follower) int64) int {
	deadline := time.Now().Add(within)
	for {
		n := c.Behind(want)
		if n == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			return n
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close ends all watches and waits for them. Its error is that of a watch which
// could not be kept open.
func (c *Crowd) Close() error {
	c.ended.Store(true)
	c.mu.Lock()
	conns := c.conns
	c.conns = map[wire.Conn]struct{}{}
	c.mu.Unlock()
	for conn := range conns {
		conn.Close()
	}
	for _, loop := range c.loops {
		loop.Close()
	}
	c.joined.Wait()
	return errors.Join(c.fails...)
}

// Judge sums up. Only after Close.
func (c *Crowd) Judge() (Verdict, *Histogram) {
	var v Verdict
	h := &Histogram{}
	for _, w := range c.all {
		v = v.Plus(w.Follower.Verdict())
		h.Merge(&w.Follower.Latency)
	}
	return v, h
}
