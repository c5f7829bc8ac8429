package conn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Set is the connections that are open. The zero value is empty.
type Set struct {
	down atomic.Int64 // until when all connections are refused, in Unix nanoseconds

	// mu guards open.
	mu   sync.Mutex
	open map[*Conn]struct{}
}

// Listener returns a listener whose connections are in the set. While a restart is simulated
// it accepts a connection and resets it, because only a closed port can refuse one.
func (s *Set) Listener(of net.Listener) net.Listener { return &listener{of, s} }

// Refuse refuses new connections for a time, at most until the caller ends that.
func (s *Set) Refuse(d time.Duration) (end func()) {
	until := time.Now().Add(d).UnixNano()
	s.down.Store(until)
	return func() { s.down.CompareAndSwap(until, 0) }
}

// Cut closes all connections.
func (s *Set) Cut() {
	for _, c := range s.all() {
		c.Cut()
	}
}

// IsDown reports whether the server is to look as if it were restarting.
func (s *Set) IsDown() bool {
	until := s.down.Load()
	return until != 0 && time.Now().UnixNano() < until
}

func (s *Set) add(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*Conn]struct{}{}
	}
	s.open[c] = struct{}{}
}

func (s *Set) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func (s *Set) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	return all
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
		c := &Conn{Conn: inner, set: l.set, listener: l}
		l.set.add(c) // before it looks: a restart that is not seen here closes it
		if !l.set.IsDown() {
			return c, nil
		}
		c.Reset()
	}
}

// Close implements net.Listener. It also closes the connections that are silent: their
// server has closed them already.
func (l *listener) Close() error {
	err := l.Listener.Close()
	for _, c := range l.set.all() {
		if c.listener == l && c.is(silent) {
			c.Cut()
		}
	}
	return err
}
