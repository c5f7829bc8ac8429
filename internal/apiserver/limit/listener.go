package limit

import (
	"container/list"
	"net"
	"runtime"
	"sync"
	"time"
)

// handshakeWithin is how long a handshake waits for a place: as long as it may take.
const handshakeWithin = 10 * time.Second

// Bounds are those of a Listener. All are positive.
type Bounds struct {
	Connections          int
	ConnectionsOfAddress int
	// Anonymous bounds connections that have not shown a client certificate, as all of them
	// at the beginning. One address may have half of them.
	Anonymous int
	// FaultsPerMinute is how many requests a connection may cancel, or send without a
	// certificate, before it is closed.
	FaultsPerMinute int
}

// Listener bounds the connections of another listener. When a bound is reached, it closes
// the oldest anonymous connection in favor of the new one; if there is none, it closes the
// new one.
type Listener struct {
	net.Listener

	bounds   Bounds
	refusals *Refusals
	turns    *Places // of handshakes, by address

	// mu guards all below.
	mu        sync.Mutex
	open      int
	anonymous list.List // of *Conn, the oldest first
	addresses map[string]*address
}

type address struct {
	open      int
	anonymous list.List // of *Conn, the oldest first
}

// NewListener wraps a listener.
func NewListener(of net.Listener, b Bounds, r *Refusals) *Listener {
	turns := NewPlaces(2*runtime.GOMAXPROCS(0), handshakeWithin, b.Connections)
	return &Listener{Listener: of, bounds: b, refusals: r, turns: turns, addresses: map[string]*address{}}
}

// Accept implements net.Listener. Its connections are *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := newConn(inner, l)
		closed, fits := l.admit(c)
		if closed != nil {
			_ = closed.Close() // its client may have closed it
		}
		if fits {
			return c, nil
		}
		_ = inner.Close() // nothing was sent on it
	}
}

// admit counts a new connection, or reports that it does not fit. It may return another
// connection that must be closed for it.
func (l *Listener) admit(c *Conn) (closed *Conn, fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.addresses[c.from]
	if from == nil {
		from = &address{}
		l.addresses[c.from] = from
	}
	var reason Reason
	var oldest *list.Element
	switch {
	case from.open >= l.bounds.ConnectionsOfAddress:
		reason, oldest = AddressConnections, from.anonymous.Front()
	case l.open >= l.bounds.Connections:
		reason, oldest = Connections, l.anonymous.Front()
	case from.anonymous.Len() >= max(1, l.bounds.Anonymous/2):
		reason, oldest = AnonymousConnections, from.anonymous.Front()
	case l.anonymous.Len() >= l.bounds.Anonymous:
		reason, oldest = AnonymousConnections, l.anonymous.Front()
	}
	if reason != "" {
		l.refusals.Add(reason)
		if oldest == nil {
			l.forgetLocked(c.from)
			return nil, false
		}
		closed = oldest.Value.(*Conn)
		l.removeLocked(closed)
		l.addresses[c.from] = from // also if that was its only one
	}
	l.open++
	from.open++
	c.counted = true
	c.inAll, c.inAddress = l.anonymous.PushBack(c), from.anonymous.PushBack(c)
	return closed, true
}

// identified removes a connection from the anonymous ones.
func (l *Listener) identified(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nameLocked(c)
}

func (l *Listener) nameLocked(c *Conn) {
	if c.inAll == nil {
		return
	}
	l.anonymous.Remove(c.inAll)
	l.addresses[c.from].anonymous.Remove(c.inAddress)
	c.inAll, c.inAddress = nil, nil
}

// remove removes a closed connection, once.
func (l *Listener) remove(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(c)
}

func (l *Listener) removeLocked(c *Conn) {
	if !c.counted {
		return
	}
	l.nameLocked(c)
	c.counted = false
	l.open--
	l.addresses[c.from].open--
	l.forgetLocked(c.from)
}

func (l *Listener) forgetLocked(from string) {
	if l.addresses[from].open == 0 {
		delete(l.addresses, from)
	}
}
