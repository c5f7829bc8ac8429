package gapless

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
)

// drain ends watches, lets the requests in progress finish, and closes all connections.
func (s *Server) drain(ctx context.Context, api *apiserver.Server, web *http.Server) error {
	if s.faulty != nil {
		s.faulty.Drain() // first, so that requests that it delays are still served
	}
	api.Drain()
	limited, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	if err := errors.Join(s.shutdown(limited, web), api.Wait(limited)); err != nil {
		s.cfg.Logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
		return errors.Join(web.Close(), s.closeListener())
	}
	return s.closeListener()
}

// shutdown closes the listener, and each connection once it has no request in progress. With
// StopAtOnce it does not wait for the second that net/http gives a client of HTTP/2.
func (s *Server) shutdown(ctx context.Context, web *http.Server) error {
	if !s.cfg.StopAtOnce {
		return web.Shutdown(ctx)
	}
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	// Shutdown ends with stopping, and this function waits for it.
	go func() { ended <- web.Shutdown(stopping) }()
	select {
	case err := <-ended:
		return err
	case <-s.busy.none():
	}
	s.busy.written(ctx)
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return web.Close()
}

// busy knows which connections of a server have a request in progress.
type busy struct {
	mu sync.Mutex
	// mu guards what follows.
	conns map[net.Conn]bool
	ended map[net.Conn]answered // those of HTTP/2 without a request
	idle  chan struct{}         // of none; nil: nobody waits
}

// answered is what was written to a connection of HTTP/2 when its last answer ended. The end of
// that was not: net/http collects what it writes, and writes it after ConnState.
type answered struct {
	at      time.Time
	written int64
}

// note is http.Server.ConnState.
func (b *busy) note(conn net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ended, conn)
	if state == http.StateActive {
		b.conns[conn] = true
		return
	}
	if inner, collects := collecting(conn); collects && state == http.StateIdle {
		b.ended[conn] = answered{at: time.Now(), written: inner.Written()}
	}
	delete(b.conns, conn) // of HTTP/1.1 watches, Wait knows
	b.tellLocked()
}

// collecting returns the connection below one of HTTP/2.
func collecting(conn net.Conn) (inner *limit.Conn, collects bool) {
	secured, is := conn.(*tls.Conn)
	if !is || secured.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, false
	}
	inner, is = secured.NetConn().(*limit.Conn)
	return inner, is
}

// none returns a channel that is closed as soon as no connection has a request in progress.
// It is called once.
func (b *busy) none() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := make(chan struct{})
	b.idle = idle
	b.tellLocked()
	return idle
}

func (b *busy) tellLocked() {
	if len(b.conns) == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// writtenWithin bounds how long the end of an answer may take to be written: no end is, of one that the client
// has cancelled.
const writtenWithin = 100 * time.Millisecond

// written waits until the ends of all answers are written.
func (b *busy) written(ctx context.Context) {
	for b.writing() && ctx.Err() == nil {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (b *busy) writing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn, last := range b.ended {
		inner, _ := collecting(conn)
		if inner.Written() == last.written && time.Since(last.at) < writtenWithin {
			return true
		}
	}
	return false
}
