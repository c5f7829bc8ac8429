// Package conn is the connections of a server whose rules reset and silence them.
//
// A [Set] is the connections that are open, and refuses others while the
// server is to look as if it were restarting. A [Conn] is one of them.
package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn

	set      *Set
	listener *listener
	// state has the bits that follow; a connection without any of them costs a load for each
	// Read and Write.
	state atomic.Uint32
	// writes counts the server's writes while the connection is counted, and last is when the
	// last one ended, in Unix nanoseconds.
	writes, last atomic.Int64
	// reading is held by a Read of a silent connection: who drains it waits for the last one.
	reading sync.Mutex

	// mu guards forget, which takes back what Silence has registered.
	mu     sync.Mutex
	forget func()
}

// The bits of a state.
const (
	// silent says that nothing more is exchanged: what the client sends is discarded, and so
	// is what the server writes. The connection stays open, also when the server closes it,
	// until the rule is removed, the client leaves, or the listener is closed.
	silent = 1 << iota
	left   // by the server, while it is silent
	counted
)

func (c *Conn) is(bit uint32) bool { return c.state.Load()&bit != 0 }

// mark sets a bit, and reports whether it was set before.
func (c *Conn) mark(bit uint32) (before bool) { return c.state.Or(bit)&bit != 0 }

type key struct{}

// NewContext returns a context for the requests of a connection, which may be wrapped, by TLS
// or by anything with a NetConn method.
func NewContext(ctx context.Context, of net.Conn) context.Context {
	if c, is := find[*Conn](of); is {
		return context.WithValue(ctx, key{}, c)
	}
	return ctx
}

// From returns the connection of a request; nil if no Listener accepted it.
func From(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}

// find returns a connection with a type, or the one that it wraps.
func find[T any](of net.Conn) (T, bool) {
	for {
		if c, is := of.(T); is {
			return c, true
		}
		outer, is := of.(interface{ NetConn() net.Conn })
		if !is {
			var none T
			return none, false
		}
		of = outer.NetConn()
	}
}

// Silence makes the connection silent until the rule is removed or the server stops: atEnd
// registers what is to be done then, and returns what takes it back.
func (c *Conn) Silence(atEnd func(do func()) (forget func())) {
	if c.mark(silent) {
		return
	}
	forget := atEnd(c.Cut)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget = forget
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if c.is(left) {
			return 0, net.ErrClosed
		}
		n, err := c.Conn.Read(p)
		if err != nil || !c.is(silent) {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	switch state := c.state.Load(); {
	case state == 0:
		return c.Conn.Write(p)
	case state&silent != 0:
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	c.last.Store(time.Now().UnixNano())
	c.writes.Add(1)
	return n, err
}

// Writes returns how many writes the connection had since it was first asked.
func (c *Conn) Writes() int64 {
	c.mark(counted)
	return c.writes.Load()
}

// Settle waits until what a handler has flushed is written: since there were so many writes,
// there was another one, and then none for a moment. HTTP/2 flushes later than it says.
func (c *Conn) Settle(since int64) {
	const moment, longest = 20 * time.Millisecond, 2 * time.Second
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(longest); time.Now().Before(late); <-tick.C {
		if c.writes.Load() > since && time.Since(time.Unix(0, c.last.Load())) >= moment {
			return
		}
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if !c.is(silent) {
		return c.close()
	}
	if !c.mark(left) {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it ends the server's Read
		go c.drain()                           // ends when the client leaves, or with Cut
	}
	return nil
}

// drain reads a silent connection that the server has left until the client leaves.
func (c *Conn) drain() {
	c.reading.Lock()
	defer c.reading.Unlock()
	_ = c.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c.Conn) // its end is all that is of interest
	c.Cut()
}

// Cut closes the connection.
func (c *Conn) Cut() { _ = c.close() } // it may be closed

func (c *Conn) close() error {
	c.set.remove(c)
	err := c.Conn.Close()
	c.mu.Lock()
	forget := c.forget
	c.forget = nil
	c.mu.Unlock()
	if forget != nil {
		forget()
	}
	return err
}

// Reset closes the connection with a TCP reset.
func (c *Conn) Reset() {
	if tcp, is := find[interface{ SetLinger(sec int) error }](c.Conn); is {
		_ = tcp.SetLinger(0) // it may be closed
	}
	c.Cut()
}

// SyscallConn implements syscall.Conn, for options of the socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if inner, is := c.Conn.(syscall.Conn); is {
		return inner.SyscallConn()
	}
	return nil, errors.New("the connection has no socket")
}
