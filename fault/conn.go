package fault

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listener returns a listener whose connections the rules can reset and silence, and which
// refuses connections while a restart is simulated. It accepts a connection and resets it,
// because only a closed port can refuse one.
func (s *Set) Listener(of net.Listener) net.Listener { return &listener{of, s} }

// ConnContext returns a context for the requests of a connection, for http.Server's
// ConnContext. The connection may be wrapped, by TLS or by anything with a NetConn method.
func (s *Set) ConnContext(ctx context.Context, of net.Conn) context.Context {
	for {
		switch c := of.(type) {
		case *conn:
			return context.WithValue(ctx, connKey{}, c)
		case interface{ NetConn() net.Conn }:
			of = c.NetConn()
		default:
			return ctx
		}
	}
}

type connKey struct{}

// connOf returns the connection of a request; nil if no Listener accepted it.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

type listener struct {
	net.Listener

	set *Set
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, set: l.set, listener: l}
		if !l.set.isDown() {
			l.set.conns.add(c)
			return c, nil
		}
		c.reset()
	}
}

// Close implements net.Listener. It also closes the connections that are silent: their
// server has closed them already.
func (l *listener) Close() error {
	err := l.Listener.Close()
	for _, c := range l.set.conns.all() {
		if c.listener == l && c.silent.Load() {
			c.cut()
		}
	}
	return err
}

// connections are those of a set that are open.
type connections struct {
	// mu guards open.
	mu   sync.Mutex
	open map[*conn]struct{}
}

func (cs *connections) add(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[*conn]struct{}{}
	}
	cs.open[c] = struct{}{}
}

func (cs *connections) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
}

func (cs *connections) all() []*conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := make([]*conn, 0, len(cs.open))
	for c := range cs.open {
		all = append(all, c)
	}
	return all
}

// restart closes all connections and refuses new ones for a time, at most until it is told to
// end.
func (s *Set) restart(d time.Duration) (end func()) {
	until := time.Now().Add(d).UnixNano()
	s.down.Store(until)
	for _, c := range s.conns.all() {
		c.cut()
	}
	return func() { s.down.CompareAndSwap(until, 0) }
}

// conn is a connection of a Listener.
type conn struct {
	net.Conn

	set      *Set
	listener *listener
	// silent says that nothing more is exchanged: what the client sends is discarded, and so
	// is what the server writes. The connection stays open, also when the server closes it,
	// until the rule is removed, the client leaves, or the listener is closed.
	silent atomic.Bool
	left   atomic.Bool // by the server, while it is silent
	// writes counts the server's writes, and last is when the last one ended, in Unix
	// nanoseconds.
	writes, last atomic.Int64
	// reading is held by a Read: who drains the connection waits for the server's last one.
	reading sync.Mutex
}

// silence makes the connection silent until the rule is removed.
func (c *conn) silence(until *active) {
	if !c.silent.Swap(true) {
		until.atRemoval(c.cut)
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if c.left.Load() {
			return 0, net.ErrClosed
		}
		n, err := c.Conn.Read(p)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	c.last.Store(time.Now().UnixNano())
	c.writes.Add(1)
	return n, err
}

// settle waits until what a handler has flushed is written: since there were mark writes,
// there was another one, and then none for a moment. HTTP/2 flushes later than it says.
func (c *conn) settle(mark int64) {
	const moment, longest = 20 * time.Millisecond, 2 * time.Second
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(longest); time.Now().Before(late); <-tick.C {
		if c.writes.Load() > mark && time.Since(time.Unix(0, c.last.Load())) >= moment {
			return
		}
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if !c.silent.Load() {
		return c.cutErr()
	}
	if !c.left.Swap(true) {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it ends the server's Read
		go c.drain()                           // ends when the client leaves, or with cut
	}
	return nil
}

// drain reads a silent connection that the server has left until the client leaves.
func (c *conn) drain() {
	c.reading.Lock()
	defer c.reading.Unlock()
	_ = c.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c.Conn) // its end is all that is of interest
	c.cut()
}

// cut closes the connection.
func (c *conn) cut() { _ = c.cutErr() } // it may be closed

func (c *conn) cutErr() error {
	c.set.conns.remove(c)
	return c.Conn.Close()
}

// reset closes the connection with a TCP reset.
func (c *conn) reset() {
	if tcp, is := c.Conn.(interface{ SetLinger(sec int) error }); is {
		_ = tcp.SetLinger(0) // it may be closed
	}
	c.cut()
}

// SyscallConn implements syscall.Conn, for options of the socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	inner, is := c.Conn.(syscall.Conn)
	if !is {
		return nil, fmt.Errorf("%T has no socket", c.Conn)
	}
	return inner.SyscallConn()
}
