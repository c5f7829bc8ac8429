package gapless

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/gapless-io/gapless/internal/apiserver"
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
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return web.Close()
}

// busy counts the connections of a server that have a request in progress.
type busy struct {
	mu sync.Mutex
	// mu guards what follows.
	conns map[net.Conn]bool
	idle  chan struct{} // of none; nil: nobody waits
}

// note is http.Server.ConnState.
func (b *busy) note(conn net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == http.StateActive {
		b.conns[conn] = true
		return
	}
	delete(b.conns, conn) // of HTTP/1.1 watches, Wait knows
	b.tellLocked()
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
