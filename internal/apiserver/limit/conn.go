package limit

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// anonymousBytes is how much a connection may send before it has shown a certificate:
	// a handshake and some requests. What exceeds it is read at anonymousRate, in
	// bytes/s: enough for a probe each 100 ms.
	anonymousBytes = 24 << 10
	anonymousRate  = 4 << 10
	// identifiedBytes is how much a connection with a certificate may send besides its
	// requests and the bodies that are read, and identifiedRate, in bytes/s, by how much
	// that grows: other frames of HTTP/2, and bodies that are not read yet.
	identifiedBytes = 128 << 10
	identifiedRate  = 16 << 10
	// requestBytes is how much a request may send besides its body.
	requestBytes = 8 << 10
	// sentShare: a client reports how far it has read (WINDOW_UPDATE), with at most one byte
	// for so many bytes read (Go's http2 sends two frames, 70 bytes with TLS, for 4 KiB).
	sentShare = 32
	// lingers is how long a connection that was given up stays open, unread: it delays
	// a client that would otherwise reconnect immediately.
	lingers = time.Second
)

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn

	listener *Listener
	from     string // the client's address
	written  atomic.Int64

	// of the listener, and guarded by its mu.
	counted          bool
	inAll, inAddress *list.Element

	ended chan struct{} // closed with the connection
	end   sync.Once

	// mu guards all below.
	mu          sync.Mutex
	names       []string // the first users; see share
	known       bool     // identified by a certificate
	trials      int      // requests whose credentials somebody else is checking
	free        bool     // not throttled
	credit      float64  // bytes that may be read at once
	faults      float64
	at          time.Time     // of credit and faults, or since when it is given up
	given       bool          // given up
	throttled   bool          // was throttled, and counted
	interrupted bool          // by a deadline
	turn        func()        // releases a handshake's place, or ends its waiting; nil without one
	wake        chan struct{} // closed when a waiting read must check again; nil when none waits
}

func newConn(inner net.Conn, l *Listener) *Conn {
	from, _, err := net.SplitHostPort(inner.RemoteAddr().String())
	if err != nil {
		from = inner.RemoteAddr().String()
	}
	return &Conn{
		Conn: inner, listener: l, from: from, ended: make(chan struct{}),
		credit: anonymousBytes, at: time.Now(),
	}
}

type key struct{}

// NewContext returns a context for the requests of a connection, for http.Server's
// ConnContext: net/http has no other way from a request to its connection. Below TLS, the
// connection is one of a Listener.
func NewContext(ctx context.Context, of net.Conn) context.Context {
	if secure, is := of.(*tls.Conn); is {
		of = secure.NetConn()
	}
	if c, is := of.(*Conn); is {
		return context.WithValue(ctx, key{}, c)
	}
	return ctx
}

// Of returns the connection of a request; nil if no Listener accepted it. The methods that
// count requests accept nil.
func Of(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.end.Do(func() {
		close(c.ended)
		c.listener.remove(c)
	})
	c.endTurn()
	return c.Conn.Close()
}

// NetConn returns the connection of the listener below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// SyscallConn implements syscall.Conn, for options of the socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	inner, is := c.Conn.(syscall.Conn)
	if !is {
		return nil, fmt.Errorf("%T has no socket", c.Conn)
	}
	return inner.SyscallConn()
}

// Read implements net.Conn. It waits when the client has sent more than its requests
// account for.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		wait, wake, err := c.pending()
		if err != nil {
			return 0, err
		}
		if wait <= 0 {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			c.noteSlow()
		case <-wake:
		case <-c.ended:
		}
		timer.Stop()
	}
	n, err := c.Conn.Read(p)
	c.earn(-n)
	return n, err
}

// SetReadDeadline implements net.Conn. It wakes a waiting read, which then gets the
// deadline's error from the connection.
func (c *Conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	c.interrupt()
	return err
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	c.interrupt()
	return err
}

func (c *Conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	c.wakeLocked()
}

// noteSlow counts a throttled connection, once.
func (c *Conn) noteSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.given && !c.throttled {
		c.throttled = true
		c.listener.refusals.Add(Throttled)
	}
}

// wakeLocked lets a waiting read check again.
func (c *Conn) wakeLocked() {
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
}

// pending returns how long a read must wait, unless it is woken; an error once the
// connection was given up and has lingered.
func (c *Conn) pending() (wait time.Duration, wake <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.given:
		if wait = c.at.Add(lingers).Sub(now); wait <= 0 {
			return 0, nil, io.EOF
		}
	case c.interrupted:
		c.interrupted = false
		return 0, nil, nil
	default:
		c.refillLocked(now)
		if c.credit >= 0 {
			return 0, nil, nil
		}
		_, rate := c.allowance()
		wait = time.Duration(-c.credit / rate * float64(time.Second))
	}
	select {
	case <-c.ended:
		return 0, nil, nil // to read is to learn that
	default:
	}
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return wait, c.wake, nil
}

func (c *Conn) allowance() (most, rate float64) {
	if c.known || c.trials > 0 {
		return identifiedBytes, identifiedRate
	}
	return anonymousBytes, anonymousRate
}

func (c *Conn) refillLocked(now time.Time) {
	most, rate := c.allowance()
	passed := now.Sub(c.at).Seconds()
	c.at = now
	c.credit = min(most, c.credit+passed*rate)
	perMinute := float64(c.listener.bounds.FaultsPerMinute)
	c.faults = max(0, c.faults-passed*perMinute/60)
}

// earn changes how many bytes a connection may send.
func (c *Conn) earn(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, _ := c.allowance()
	if c.free || n > 0 && !c.known && c.trials == 0 { // an anonymous connection earns only by time
		return
	}
	if c.credit = min(most, c.credit+float64(n)); c.credit >= 0 {
		c.wakeLocked()
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.endTurn() // the answer of a handshake is computed
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	c.earn(n / sentShare)
	return n, err
}

// Written is how many bytes were given to the system.
func (c *Conn) Written() int64 { return c.written.Load() }

// beginTurn waits until a handshake may compute its answer, which takes about a
// millisecond. Each address has a share, so that many handshakes from one address do not
// block others.
func (c *Conn) beginTurn(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.atEnd(cancel)
	release, err := c.listener.turns.Take(ctx, c.from, 1)
	if err != nil {
		return fmt.Errorf("wait for the turn of a handshake: %w", err)
	}
	c.atEnd(release)
	return nil
}

// atEnd sets what endTurn calls; the next Write and Close call endTurn.
func (c *Conn) atEnd(do func()) {
	c.mu.Lock()
	c.turn = do
	c.mu.Unlock()
	select {
	case <-c.ended: // Close may have run before
		c.endTurn()
	default:
	}
}

func (c *Conn) endTurn() {
	c.mu.Lock()
	do := c.turn
	c.turn = nil
	c.mu.Unlock()
	if do != nil {
		do()
	}
}

// TLS returns a configuration for a server behind a Listener. Each handshake uses what current returns
// then. It bounds concurrent
// handshakes, and a handshake with a verified certificate identifies its connection.
func TLS(current func() *tls.Config) *tls.Config {
	out := current().Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, is := hello.Conn.(*Conn)
		if !is {
			return current(), nil
		}
		if err := c.beginTurn(hello.Context()); err != nil {
			return nil, err
		}
		mine := current().Clone() // tickets have the keys of out (tls.Config.GetConfigForClient)
		mine.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.VerifiedChains) > 0 {
				major := 1
				if state.NegotiatedProtocol == "h2" {
					major = 2
				}
				c.Known(major)
			}
			return nil
		}
		return mine, nil
	}
	return out
}

// Identified records that the client has shown a certificate: the connection is no longer
// anonymous.
func (c *Conn) Identified() {
	c.mu.Lock()
	was := c.known
	if !was {
		c.known, c.credit = true, identifiedBytes
		c.wakeLocked()
	}
	c.mu.Unlock()
	if !was {
		c.listener.identified(c)
	}
}

// Known records that the client is known, by a certificate or a token, and speaks this major version
// of HTTP.
func (c *Conn) Known(major int) {
	if c == nil {
		return
	}
	c.Identified()
	c.mu.Lock()
	c.free = major < 2 // HTTP/1.1 has no control frames to flood the server with
	c.mu.Unlock()
}

// Request counts a request with a certificate, and returns its body. The bytes of the
// request, and what is read of the body, do not throttle the connection.
func (c *Conn) Request(of io.ReadCloser) io.ReadCloser {
	if c == nil {
		return of
	}
	c.earn(requestBytes)
	if of == http.NoBody {
		return of // others compare with it
	}
	return &body{of, c}
}

// Try counts a request whose credentials another server checks, and returns its body. That server needs the
// body for the answer: until end is called, which must be once, the bytes that are read of it do not
// throttle the connection, and it may send other frames as an identified one. It stays anonymous.
func (c *Conn) Try(of io.ReadCloser) (body io.ReadCloser, end func()) {
	if c == nil {
		return of, func() {}
	}
	c.mu.Lock()
	c.trials++
	c.credit = max(c.credit, anonymousBytes) // a frame of a body must be read before its bytes can count
	c.wakeLocked()
	c.mu.Unlock()
	return c.Request(of), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.trials--
	}
}

// Fault counts a request that was canceled, or that had no certificate. After too many
// of them the connection is not read for a second, and then closed.
func (c *Conn) Fault(why Reason) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given {
		return
	}
	c.refillLocked(time.Now())
	if c.faults++; c.faults <= float64(c.listener.bounds.FaultsPerMinute) {
		return
	}
	c.given = true
	c.listener.refusals.Add(why)
	c.wakeLocked()
	time.AfterFunc(lingers, func() { _ = c.Close() }) // its client may have closed it
}

// body lets its connection send as many bytes more as are read from it.
type body struct {
	io.ReadCloser

	conn *Conn
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.conn.earn(n + n/8) // with what frames and TLS need
	return n, err
}
