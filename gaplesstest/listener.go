package gaplesstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc/test/bufconn"
)

// pipeBytes is how much one side of a connection in memory may write before the other reads.
const pipeBytes = 64 << 10

// listener is a listener that can cut its connections, as the end of a process does.
type listener struct {
	net.Listener

	address net.Addr                                    // what Addr returns
	dial    func(ctx context.Context) (net.Conn, error) // nil: by the address

	// mu guards open and closed.
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// listenTCP listens on an address of this machine.
func listenTCP(ctx context.Context, address string) (*listener, error) {
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &listener{Listener: inner, address: inner.Addr(), open: map[*conn]struct{}{}}, nil
}

// listenMemory listens for connections in memory: only clients with its dial reach it.
func listenMemory() *listener {
	pipes := bufconn.Listen(pipeBytes)
	return &listener{
		Listener: pipes, open: map[*conn]struct{}{},
		// Clients need a URL, and the Service kubernetes an address.
		address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443},
		dial:    pipes.DialContext,
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.address }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // connections in memory have another error for it
		if err == nil {
			_ = inner.Close()
		}
		return nil, net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, listener: l}
	l.open[c] = struct{}{}
	return c, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeLocked()
}

func (l *listener) closeLocked() error {
	l.closed = true
	return l.Listener.Close()
}

// kill ends the listener and resets its connections: nothing is sent to a client any more.
func (l *listener) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.closeLocked()
	for c := range l.open {
		c.reset()
	}
	clear(l.open)
}

// conn is a connection of a listener.
type conn struct {
	net.Conn

	listener *listener
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn, by which the server sets options of a socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	socket, is := c.Conn.(syscall.Conn)
	if !is {
		return nil, errors.New("a connection in memory has no socket")
	}
	return socket.SyscallConn()
}

// SetLinger says what happens to data that waits when the connection is closed, as that of
// net.TCPConn. In memory nothing waits.
func (c *conn) SetLinger(sec int) error {
	if socket, is := c.Conn.(*net.TCPConn); is {
		return socket.SetLinger(sec)
	}
	return nil
}

// reset closes a connection without sending what waits.
func (c *conn) reset() {
	_ = c.SetLinger(0) // it may be closed
	_ = c.Conn.Close()
}
