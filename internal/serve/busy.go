package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
)

// Busy knows which connections of a server have a request in progress.
type Busy struct {
	mu sync.Mutex
	// mu guards what follows.
	conns map[net.Conn]bool
	ended map[net.Conn]answered // those of HTTP/2 without a request
	idle  chan struct{}         // of none; nil: nobody waits
}

// NewBusy returns what knows of no connection yet. Note is for http.Server.ConnState.
func NewBusy() *Busy { return &Busy{conns: map[net.Conn]bool{}, ended: map[net.Conn]answered{}} }

// answered is how much was written to a connection of HTTP/2 when net/http called it idle. The end
// of its last answer was not yet: net/http collects what it writes, and writes it after that call.
type answered struct {
	below   *limit.Conn // the connection, below TLS
	at      time.Time
	written int64
}

// Shutdown closes the listener of a server, and each connection once it has no request in progress. It does not
// wait for the second that net/http gives a client of HTTP/2.
func (b *Busy) Shutdown(ctx context.Context, web *http.Server) error {
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	// Shutdown ends with stopping, and this function waits for it.
	go func() { ended <- web.Shutdown(stopping) }()
	select {
	case err := <-ended:
		return err
	case <-b.none():
	}
	b.written(ctx)
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return web.Close()
}

// Note is http.Server.ConnState.
func (b *Busy) Note(conn net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ended, conn)
	if state == http.StateActive {
		b.conns[conn] = true
		return
	}
	if state == http.StateIdle {
		if below, is := overHTTP2(conn); is {
			b.ended[conn] = answered{below: below, at: time.Now(), written: below.Written()}
		}
	}
	delete(b.conns, conn) // of HTTP/1.1 watches, Wait knows
	b.tellLocked()
}

// overHTTP2 returns the connection below TLS of one that speaks HTTP/2.
func overHTTP2(conn net.Conn) (below *limit.Conn, is bool) {
	secured, is := conn.(*tls.Conn)
	if !is || secured.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, false
	}
	below, is = secured.NetConn().(*limit.Conn)
	return below, is
}

// none returns a channel that is closed as soon as no connection has a request in progress.
// It is called once.
func (b *Busy) none() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := make(chan struct{})
	b.idle = idle
	b.tellLocked()
	return idle
}

func (b *Busy) tellLocked() {
	if len(b.conns) == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// writtenWithin bounds the wait for the end of an answer: if the client has cancelled the request,
// no end is written.
const writtenWithin = 100 * time.Millisecond

// written waits until the ends of all answers are written.
func (b *Busy) written(ctx context.Context) {
	for b.writing() && ctx.Err() == nil {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (b *Busy) writing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, last := range b.ended {
		if last.below.Written() == last.written && time.Since(last.at) < writtenWithin {
			return true
		}
	}
	return false
}
