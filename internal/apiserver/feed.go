package apiserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
	"github.com/gapless-io/gapless/kube"
)

const (
	// bookmarkEvery and bookmarkBefore are upstream's cadence: each minute, and two
	// seconds before the deadline (server.md 3.4).
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
	// overtime is how long after its deadline a watch may take to write an event that
	// was due. Until then a client that takes nothing is parked: it holds a piece of a
	// batch and its place in the log, and goes on when it reads again.
	overtime = 30 * time.Second
	// drainWithin is how long a client may take to take the end when the server goes.
	drainWithin = time.Second
	// quietWithin is how long a watch lasts at least when it ends without a word:
	// fabric8 7.8 takes a shorter one for an expired resourceVersion (ecosystem.md 0.6).
	quietWithin = 2 * time.Second
)

// feed is one watch on its way to one client. It holds nothing of the request.
type feed struct {
	stream    kube.Watch // nil when there is only failed to say
	sink      stream.Sink
	painter   *painter
	metrics   *watchMetrics
	bookmarks bool
	every     time.Duration // between bookmarks
	zip       bool
	detached  bool // the handler need not wait for it
	deadline  time.Time
	failed    error // what the watch failed with before it began

	// ctx ends when the client leaves or the server drains.
	ctx     context.Context //nolint:containedctx // the feed is the call
	cancel  context.CancelCauseFunc
	undrain func() bool
	ended   func() // accounts for the request

	sent  kube.ResourceVersion // the last that the client knows, by an event or a bookmark
	begun bool                 // the initial events are through, if there are any
	spoke bool                 // a frame was written

	headType kube.EventType // the type that headLine is of
	headLine []byte
}

// feeds are those that are open.
type feeds struct {
	// mu guards what follows, and keeps a feed from ending while it is limited.
	mu      sync.Mutex
	open    map[*feed]struct{}
	running int           // from before their connection is taken over to their end
	idle    chan struct{} // not nil when somebody waits; closed when none is running
}

// begin counts a feed that is about to be connected. A WaitGroup cannot do this: a
// drain waits while others still begin.
func (fs *feeds) begin() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.running++
}

// end counts it out.
func (fs *feeds) end() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.running--; fs.running == 0 && fs.idle != nil {
		close(fs.idle)
		fs.idle = nil
	}
}

func (fs *feeds) add(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.open == nil {
		fs.open = map[*feed]struct{}{}
	}
	fs.open[f] = struct{}{}
}

func (fs *feeds) remove(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.open, f)
}

// limit lets no write of any of them last longer than until t.
func (fs *feeds) limit(t time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.open {
		f.sink.Limit(t)
	}
}

// wait blocks until none is open, or ctx ends.
func (fs *feeds) wait(ctx context.Context) error {
	fs.mu.Lock()
	if fs.running == 0 {
		fs.mu.Unlock()
		return nil
	}
	if fs.idle == nil {
		fs.idle = make(chan struct{})
	}
	idle := fs.idle
	fs.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// initial says that the watch begins with the state.
func (f *feed) initial() bool { return f.stream != nil && f.stream.Position() == 0 }

// runFeed serves a feed to its end.
func (s *Server) runFeed(f *feed) {
	end := stream.Done
	defer func() {
		// A panic ends one watch, and not the process; the client sees it cut off.
		if cause := recover(); cause != nil {
			end = stream.Broken
			s.logger.ErrorContext(f.ctx, "watch panicked", slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
		}
		s.open.remove(f)
		f.close()
		f.sink.End(end)
	}()
	f.sink.Limit(f.deadline.Add(overtime))
	if f.failed != nil {
		f.fail(f.failed)
		return
	}
	began := time.Now()
	if f.deadline.Before(began) { // a negative timeoutSeconds
		return
	}
	why := f.run()
	if errors.Is(why, errDraining) {
		end = stream.Shutdown
	}
	if (errors.Is(why, errDraining) || errors.Is(why, io.EOF)) && !f.spoke {
		select {
		case <-time.After(time.Until(began.Add(quietWithin))):
		case <-f.sink.Gone():
		}
		f.sink.Limit(time.Now().Add(drainWithin))
	}
}

// close gives back what the feed holds.
func (f *feed) close() {
	if f.stream != nil {
		f.stream.Close()
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

// run writes until the end, says the end where the protocol can, and returns why
// it came.
func (f *feed) run() error {
	f.begun = !f.initial()
	if f.begun {
		if err := f.catchUp(); err != nil {
			return err
		}
	}
	for {
		tick, cancel := context.WithDeadlineCause(f.ctx, f.nextTick(time.Now()), errTick)
		err := f.follow(tick)
		cancel()
		switch {
		case errors.Is(err, errTick) && time.Now().Before(f.deadline):
			if err := f.heartbeat(); err != nil {
				return err
			}
		case errors.Is(err, errDraining):
			// Once more: Drain may have come before this watch set its own limit.
			f.sink.Limit(time.Now().Add(quietWithin + drainWithin))
			_ = f.catchUp() // the end comes anyway
			return err
		case errors.Is(err, errTick), errors.Is(err, io.EOF):
			_ = f.catchUp()
			return err
		default:
			return err
		}
	}
}

// follow writes events until ctx ends, the watch does, or the client is gone.
func (f *feed) follow(ctx context.Context) error {
	for {
		events, err := f.stream.Next(ctx)
		switch {
		case err == nil:
			if err := f.write(events); err != nil {
				return err
			}
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)), errors.Is(err, io.EOF):
			return err
		default:
			f.fail(err)
			return err
		}
	}
}

// nextTick is when the next bookmark is due, or the end.
func (f *feed) nextTick(now time.Time) time.Time {
	last := f.deadline.Add(-bookmarkBefore)
	switch {
	case !f.bookmarks || !now.Before(last):
		return f.deadline
	case now.Add(f.every).Before(last):
		return now.Add(f.every)
	default:
		return last
	}
}

// write sends a batch and flushes it once.
func (f *feed) write(events []kube.WatchEvent) error {
	count, bytes := 0, 0
	for i := range events {
		if now := time.Now(); now.After(f.deadline) {
			f.sink.Limit(now.Add(overtime))
		}
		n, err := f.event(&events[i])
		if err != nil {
			return err
		}
		if n > 0 {
			count++
			bytes += n
		}
	}
	f.metrics.sent(count, bytes)
	return f.sink.Flush()
}

// event puts the line of an event in the client's shape, nothing for an event that
// it did not ask for, and returns its bytes.
func (f *feed) event(e *kube.WatchEvent) (int, error) {
	if e.Type == kube.InitialEventsEnd {
		f.begun = true
		if !f.bookmarks {
			return 0, nil
		}
		return f.bookmark(*e)
	}
	var n int
	var err error
	switch {
	case f.painter.shape != shapeObject:
		n, err = f.painted(e.Type, e.Object)
	default:
		n, err = f.line(e.Type, e.Object.JSON())
	}
	f.sent = max(f.sent, e.ResourceVersion)
	return n, err
}

func (f *feed) painted(t kube.EventType, o *kube.Object) (int, error) {
	f.painter.now = time.Now()
	body, err := f.painter.object(o)
	if err != nil {
		f.fail(err)
		return 0, err
	}
	return f.line(t, body)
}

// bookmark puts the line of a bookmark in the client's shape.
func (f *feed) bookmark(e kube.WatchEvent) (int, error) {
	r := f.painter.resource
	line := kube.BookmarkFrame(r.APIVersion(), r.Kind, e.ResourceVersion, e.Type)
	if e.Since != 0 {
		line = kube.DeltaEndFrame(r.APIVersion(), r.Kind, e.ResourceVersion, e.Since)
	}
	f.sent = max(f.sent, e.ResourceVersion)
	if f.painter.shape == shapeObject {
		return len(line), f.put(line)
	}
	o, err := kube.ParseObject(line[len(f.head(e.Type)):len(line)-len(kube.FrameTail)], nil)
	if err != nil {
		return 0, err
	}
	return f.painted(e.Type, o)
}

// heartbeat sends a bookmark whether or not it says anything new: a client that
// counts on the cadence knows by it that the watch is alive.
func (f *feed) heartbeat() error {
	position := f.stream.Position()
	if !f.bookmarks || !f.begun || position == 0 {
		return nil
	}
	if _, err := f.bookmark(kube.WatchEvent{Type: kube.Bookmark, ResourceVersion: max(position, f.sent)}); err != nil {
		return err
	}
	return f.sink.Flush()
}

// catchUp sends a bookmark if the stream is further than the client knows. It
// is sent at the attach and before every end that the server chooses, so that a
// client never comes back with an older resourceVersion than it must
// (server.md 3.4: the upstream hole).
func (f *feed) catchUp() error {
	if f.stream.Position() <= f.sent {
		return nil
	}
	return f.heartbeat()
}

// fail puts the ERROR frame, which is the last.
func (f *feed) fail(err error) {
	_ = f.put(kube.ErrorFrame(kube.StatusOf(err))) // the client may be gone
}

func (f *feed) put(line []byte) error {
	f.spoke = true
	return f.sink.Put(line, nil, nil)
}

// head is what stands before the object in a line; it is made anew only
// when another type comes.
func (f *feed) head(t kube.EventType) []byte {
	if f.headType != t {
		f.headType, f.headLine = t, []byte(kube.FrameHead(t))
	}
	return f.headLine
}

func (f *feed) line(t kube.EventType, object []byte) (int, error) {
	f.spoke = true
	head := f.head(t)
	return len(head) + len(object) + len(kube.FrameTail), f.sink.Put(head, object, []byte(kube.FrameTail))
}
