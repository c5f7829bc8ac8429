package feed

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

// Set is the feeds of a server. It is safe for concurrent use.
type Set struct {
	logger *slog.Logger

	// draining ends when Drain is called; feeds end with it.
	draining context.Context //nolint:containedctx // it is a signal that lives as long as the server, not a call's context
	drain    context.CancelCauseFunc

	// mu guards what follows, and keeps a feed from ending while it is limited.
	mu      sync.Mutex
	open    map[*Feed]struct{}
	expired []Expired     // the last ones
	running int           // from before the connection is taken over to the end
	idle    chan struct{} // not nil while Wait waits; closed when none is running
}

// NewSet returns an empty set. It drains when ctx ends.
func NewSet(ctx context.Context, logger *slog.Logger) *Set {
	s := &Set{logger: logger}
	s.draining, s.drain = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, s.Drain)
	return s
}

// Drain ends every feed, after a last bookmark if the client requested bookmarks. It does not
// block. A client that reads nothing for three seconds is cut off.
func (s *Set) Drain() {
	s.drain(ErrDraining)
	// A write limit resets an HTTP/2 stream even when nothing is being written, and
	// a feed that has sent no frame is to last for quietWithin.
	s.limit(time.Now().Add(quietWithin + drainWithin))
}

// Draining returns a context that ends with Drain, by the cause ErrDraining.
func (s *Set) Draining() context.Context { return s.draining }

// begin counts a feed that is about to be connected. A WaitGroup cannot do this: a
// drain waits while others still begin.
func (s *Set) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// end counts a feed that has ended.
func (s *Set) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func (s *Set) add(f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*Feed]struct{}{}
	}
	s.open[f] = struct{}{}
}

func (s *Set) remove(f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, f)
}

// limit makes writes of all feeds fail that are not done at t.
func (s *Set) limit(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.open {
		if f.sink != nil { // one that is being connected sets its own when it finds that the server drains (run)
			f.sink.Limit(t)
		}
	}
}

// Wait blocks until no feed is open, after Drain, or returns ctx's cause.
func (s *Set) Wait(ctx context.Context) error {
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Connect connects a feed with its client, after which the caller calls Run. Where the
// connection can be taken over, the feed is detached: the handler can return, and the feed
// holds nothing else. After an error the client is gone, or the handshake was answered;
// the caller closes the feed.
//
//nolint:contextcheck // a detached feed lives as long as the server, not its request
func (s *Set) Connect(f *Feed, w http.ResponseWriter, r *http.Request) (err error) {
	socket := stream.WantsUpgrade(r)
	f.Detached = socket || stream.CanHijack(w, r)
	parent := s.draining
	if !f.Detached {
		parent = r.Context()
	}
	ctx, cancel := context.WithCancelCause(parent)
	f.ctx, f.cancel = ctx, cancel
	left := func() { cancel(errLeft) }
	s.begin() // before the connection is taken over
	s.add(f)  // before the client can know that its watch is open
	var sink stream.Sink
	switch {
	case socket:
		messages := stream.Text
		if f.cfg.Renderer.Binary() {
			messages, f.unframed = stream.Binary, true
		}
		sink, err = stream.Upgrade(w, r, messages, left)
	case f.Detached:
		sink, err = stream.Hijack(w, f.cfg.Gzip, left)
	default:
		if sink, err = stream.Respond(w, r, f.cfg.Gzip); err == nil {
			f.undrain = context.AfterFunc(s.draining, func() { cancel(ErrDraining) })
		}
	}
	if err != nil {
		s.remove(f)
		s.end()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.sink = sink
	return nil
}

// Run serves a connected feed to its end.
func (s *Set) Run(f *Feed) {
	defer s.end()

	end := stream.Done
	defer func() {
		// A panic ends one watch, and not the process; the client sees it cut off.
		if cause := recover(); cause != nil {
			end = stream.Broken
			s.logger.ErrorContext(f.ctx, "watch panicked", slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
		}
		s.remove(f)
		f.Close()
		f.sink.End(end)
	}()
	f.sink.Limit(f.cfg.Deadline.Add(overtime))
	if f.cfg.Failed != nil {
		f.fail(f.cfg.Failed)
		s.expires(f, f.cfg.Failed)
		return
	}
	began := time.Now()
	if f.cfg.Deadline.Before(began) { // a negative timeoutSeconds
		return
	}
	why := f.run()
	s.expires(f, why)
	if errors.Is(why, ErrDraining) {
		end = stream.Shutdown
	}
	if (errors.Is(why, ErrDraining) || errors.Is(why, io.EOF)) && !f.spoke {
		select {
		case <-time.After(time.Until(began.Add(quietWithin))):
		case <-f.sink.Gone():
		}
		f.sink.Limit(time.Now().Add(drainWithin))
	}
}

// Close releases the resources of a feed. Run calls it.
func (f *Feed) Close() {
	if f.cfg.Watch != nil {
		f.cfg.Watch.Close()
	}
	if f.undrain != nil {
		f.undrain()
	}
	if f.cancel != nil {
		f.cancel(nil)
	}
	if f.ended != nil {
		f.ended()
	}
}
