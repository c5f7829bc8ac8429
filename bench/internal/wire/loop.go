package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Loop reads the answers of many HTTP/1.1 requests, each on a connection of its own,
// in one goroutine: thousands of streams cost no more goroutines, wake-ups and
// buffers than one. It works on Linux.
type Loop struct {
	target Target
	poll   int
	joined sync.WaitGroup

	// mu guards the streams by their sockets, and whether the loop has ended.
	mu     sync.Mutex
	open   map[int]*polled
	closed bool
}

// polled is one stream of a loop. Everything but the socket belongs to the loop.
type polled struct {
	fd     *socket
	conn   *tls.Conn
	chunks chunks
	body   io.Writer
	done   func(error)
}

// NewLoop starts the goroutine, which ends with Close.
func NewLoop(t Target) (*Loop, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	l := &Loop{target: t, poll: poll, open: map[int]*polled{}}
	l.joined.Go(l.run)
	return l, nil
}

// Start connects, sends the request and waits for the header of its answer, which
// must be a 2xx and chunked. From then on the loop hands the body to body, and calls
// done when it has ended, with nil if it was complete. Neither may block.
func (l *Loop) Start(ctx context.Context, r Request, body io.Writer, done func(error)) error {
	fd, err := dialSocket(l.target.Address)
	if err != nil {
		return err
	}
	p := &polled{fd: fd, body: body, done: done}
	if p.conn, err = l.target.handshake(ctx, fd, HTTP1); err != nil {
		return err
	}
	first := newSequential(p.conn, l.target)
	rest, err := first.begin(r)
	if err == nil {
		err = l.begin(p, rest)
	}
	if err == nil {
		return nil
	}
	_ = fd.Close() // it is given up
	if err = outcome(err); err == nil {
		done(nil) // it was short
	}
	return err
}

// begin sends the request, reads the header of its answer and returns what has
// arrived of its body.
func (c *sequential) begin(r Request) ([]byte, error) {
	if err := c.send(r); err != nil {
		return nil, err
	}
	h, err := c.header()
	if err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	if h.status/100 != 2 {
		refused := &refusal{}
		_, err := c.body(h, refused)
		return nil, errors.Join(&StatusError{Status: h.status, Body: refused.body}, err)
	}
	if !h.chunked {
		return nil, errors.New("a stream must be chunked")
	}
	if r.Opened != nil {
		r.Opened()
	}
	return c.in.Peek(c.in.Buffered())
}

// begin hands on what came with the header, and leaves the rest to the loop.
func (l *Loop) begin(p *polled, rest []byte) error {
	if err := p.chunks.feed(rest, p.body); err != nil {
		return err
	}
	if err := p.fd.pollable(); err != nil {
		return err
	}
	// What TLS has read already no poll will tell.
	if err := p.drain(make([]byte, readBytes)); !errors.Is(err, errEmpty) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.open[p.fd.fd] = p
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: int32(p.fd.fd)} //nolint:gosec // descriptors are small
	if err := syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_ADD, p.fd.fd, &event); err != nil {
		delete(l.open, p.fd.fd)
		return fmt.Errorf("watch a socket: %w", err)
	}
	return nil
}

// Close ends all streams and waits for the loop.
func (l *Loop) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.joined.Wait()
}

// lookEvery is how soon the loop notices that it is closed, in milliseconds.
const lookEvery = 50

// run reads what is there until the loop is closed.
func (l *Loop) run() {
	events := make([]syscall.EpollEvent, 256)
	buf := make([]byte, readBytes)
	for {
		n, err := syscall.EpollWait(l.poll, events, lookEvery)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			break // the descriptor is ours: it cannot be bad
		}
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			break
		}
		for _, e := range events[:max(n, 0)] {
			l.mu.Lock()
			p := l.open[int(e.Fd)]
			l.mu.Unlock()
			if p == nil {
				continue
			}
			if err := p.drain(buf); !errors.Is(err, errEmpty) {
				l.drop(p)
				p.end(err)
			}
		}
	}
	l.mu.Lock()
	left := l.open
	l.open = map[int]*polled{}
	l.mu.Unlock()
	for _, p := range left {
		_ = p.fd.Close() // it is given up
		p.end(net.ErrClosed)
	}
	_ = syscall.Close(l.poll) // nothing uses it any more
}

func (l *Loop) drop(p *polled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, p.fd.fd)
	_ = p.fd.Close() // which takes it out of the epoll
}

// drain hands on all that has arrived. It ends with errEmpty, or with the stream.
func (p *polled) drain(buf []byte) error {
	p.fd.ready()
	for {
		n, err := p.conn.Read(buf)
		if n > 0 {
			if err := p.chunks.feed(buf[:n], p.body); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// end tells the owner how the stream ended.
func (p *polled) end(err error) { p.done(outcome(err)) }

func outcome(err error) error {
	switch {
	case errors.Is(err, errWhole), errors.Is(err, ErrStop):
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// errWhole says that the last chunk has come.
var errWhole = errors.New("the body is complete")

// chunks takes the chunks of a body apart, in whatever pieces they come.
type chunks struct {
	size  int64 // what is left of the chunk
	line  []byte
	state int
}

const (
	inSize    = iota // reading the line with the size
	inData           // reading the chunk
	afterData        // reading the end of line after it
	inEnd            // after the last chunk
)

func (c *chunks) feed(b []byte, w io.Writer) error {
	for len(b) > 0 {
		if c.state == inData {
			n := min(int64(len(b)), c.size)
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			if c.size -= n; c.size == 0 {
				c.state = afterData
			}
			continue
		}
		char := b[0]
		b = b[1:]
		if char != '\n' {
			if char != '\r' {
				c.line = append(c.line, char)
			}
			continue
		}
		if err := c.endOfLine(); err != nil {
			return err
		}
	}
	return nil
}

func (c *chunks) endOfLine() error {
	line := string(c.line)
	c.line = c.line[:0]
	switch c.state {
	case inSize:
		size, err := strconv.ParseInt(line, 16, 64)
		if err != nil {
			return fmt.Errorf("chunk size: %w", err)
		}
		c.size, c.state = size, inData
		if size == 0 {
			c.state = inEnd
		}
		return nil
	case afterData:
		c.state = inSize
	case inEnd:
		return errWhole
	}
	if line != "" {
		return fmt.Errorf("after a chunk came %q", line)
	}
	return nil
}

// socket is a TCP connection outside of Go's own poller: reads block until
// pollable, and say errEmpty from then on when nothing is there.
type socket struct {
	fd      int
	polled  bool
	drained bool // the last read took all there was
	closing sync.Once
}

// emptyError is what crypto/tls takes for a passing condition.
type emptyError struct{}

func (emptyError) Error() string { return "nothing has arrived" }

func (emptyError) Timeout() bool { return true }

func (emptyError) Temporary() bool { return true }

var errEmpty error = emptyError{}

// openWithin is how long a server may be silent before its header, in seconds.
const openWithin = 60

func dialSocket(address string) (*socket, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4() {
		return nil, fmt.Errorf("%s is not an IPv4 address with a port: %w", address, err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	s := &socket{fd: fd}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO,
		&syscall.Timeval{Sec: openWithin}); err != nil {
		return nil, errors.Join(fmt.Errorf("set SO_RCVTIMEO: %w", err), s.Close())
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w", err), s.Close())
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("set TCP_NODELAY: %w", err), s.Close())
	}
	return s, nil
}

// ready says that something has arrived.
func (s *socket) ready() { s.drained = false }

// pollable makes reads return without waiting.
func (s *socket) pollable() error {
	s.polled = true
	if err := syscall.SetNonblock(s.fd, true); err != nil {
		return fmt.Errorf("set a socket non-blocking: %w", err)
	}
	return nil
}

func (s *socket) Read(b []byte) (int, error) {
	if s.polled && s.drained {
		return 0, errEmpty
	}
	for {
		n, err := syscall.Read(s.fd, b)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, errEmpty
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		}
		s.drained = n < len(b)
		return n, nil
	}
}

func (s *socket) Write(b []byte) (int, error) {
	for at := 0; at < len(b); {
		n, err := syscall.Write(s.fd, b[at:])
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return at, os.NewSyscallError("write", err)
		}
		at += max(n, 0)
	}
	return len(b), nil
}

func (s *socket) Close() (err error) {
	s.closing.Do(func() { err = os.NewSyscallError("close", syscall.Close(s.fd)) })
	return err
}

// The rest of net.Conn, which crypto/tls wants but does not need here.

func (s *socket) LocalAddr() net.Addr { return &net.TCPAddr{} }

func (s *socket) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (s *socket) SetDeadline(time.Time) error { return nil }

func (s *socket) SetReadDeadline(time.Time) error { return nil }

func (s *socket) SetWriteDeadline(time.Time) error { return nil }
