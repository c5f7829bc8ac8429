// Package feed writes a watch to its client: events, bookmarks, and the end.
//
// A [Feed] sends one watch to one client. A [Set] is the feeds
// that are open, which it connects to their clients, runs, and drains.
package feed

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/metrics"
	"github.com/gapless-io/gapless/internal/apiserver/protobuf"
	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/stream"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Why a watch ends, or wakes up, other than for events.
var (
	// ErrDraining is the cause when the server drains.
	ErrDraining = errors.New("server is draining")

	errTick = errors.New("time for a bookmark or the end")
	errLeft = errors.New("client left")
)

const (
	// BookmarkEvery and bookmarkBefore are upstream's cadence: each minute, and two
	// seconds before the deadline.
	BookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
	// overtime is how long after its deadline a watch may take to write an event that
	// was due. Until then a client that reads nothing stays open: it holds a piece of a
	// batch and its position in the log, and gets the rest when it reads again.
	overtime = 30 * time.Second
	// drainWithin is how long a client may take to read the end when the server drains.
	drainWithin = time.Second
	// quietWithin is how long a watch that sends no frame lasts at least:
	// fabric8 7.8 takes a shorter one for an expired resourceVersion (its issue 7896).
	quietWithin = 2 * time.Second
)

// Config configures a Feed. Renderer and Metrics are required.
type Config struct {
	Watch     wire.Watch // nil if Failed is set
	Renderer  *render.Renderer
	Metrics   *metrics.Watch
	Bookmarks bool
	Gzip      bool
	Every     time.Duration // between bookmarks
	Deadline  time.Time
	Known     kube.ResourceVersion // the resourceVersion that the client knows
	Client    Client               // who watches
	Failed    error                // why the watch could not be opened
}

// Feed sends one watch to one client. It does not keep the request. It is used
// by one goroutine at a time.
type Feed struct {
	cfg  Config
	sink stream.Sink
	// parts are those of the line that is put, and cleared afterwards: a watch that waits
	// holds no object.
	parts [][]byte
	// known is the last resourceVersion that the client knows, by an event or a bookmark.
	known kube.ResourceVersion
	// sent and seen are for others: the events that were sent, and the resourceVersion that
	// the client knows by them.
	sent, seen atomic.Uint64
	writing    atomic.Int64 // since when a batch is being sent, in Unix nanoseconds; 0: none is

	// ctx ends when the client leaves or the server drains.
	ctx     context.Context //nolint:containedctx // the feed is the call
	cancel  context.CancelCauseFunc
	undrain func() bool
	ended   func() // accounts for the request

	// Detached says that the feed has a connection of its own: the handler can return.
	Detached bool
	begun    bool // the initial events were sent, if there are any
	spoke    bool // a frame was written
	unframed bool // the stream says how long each event is: frames do not
}

// New returns a feed that is not connected yet.
func New(cfg Config) *Feed {
	f := &Feed{cfg: cfg, known: cfg.Known}
	f.seen.Store(uint64(cfg.Known))
	return f
}

// OnEnd sets what is called when the feed has ended.
func (f *Feed) OnEnd(ended func()) { f.ended = ended }

// initial reports whether the watch begins with the state.
func (f *Feed) initial() bool { return f.cfg.Watch != nil && f.cfg.Watch.Position() == 0 }

// run writes until the watch ends, and returns why it ended.
func (f *Feed) run() error {
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
		case errors.Is(err, errTick) && time.Now().Before(f.cfg.Deadline):
			if err := f.heartbeat(); err != nil {
				return err
			}
		case errors.Is(err, ErrDraining):
			// Again: Drain may have come before this watch set its own limit.
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
func (f *Feed) follow(ctx context.Context) error {
	for {
		events, err := f.cfg.Watch.Next(ctx)
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
func (f *Feed) nextTick(now time.Time) time.Time {
	last := f.cfg.Deadline.Add(-bookmarkBefore)
	switch {
	case !f.cfg.Bookmarks || !now.Before(last):
		return f.cfg.Deadline
	case now.Add(f.cfg.Every).Before(last):
		return now.Add(f.cfg.Every)
	default:
		return last
	}
}

// write sends a batch and flushes it once.
func (f *Feed) write(events []wire.WatchEvent) error {
	f.writing.Store(time.Now().UnixNano())
	defer f.writing.Store(0)
	count, bytes := 0, 0
	for i := range events {
		if now := time.Now(); now.After(f.cfg.Deadline) {
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
	f.cfg.Metrics.Sent(count, bytes)
	f.sent.Add(uint64(count)) //nolint:gosec // not negative
	f.seen.Store(uint64(f.known))
	return f.sink.Flush()
}

// event puts the line of an event in the client's form, and returns its bytes. It puts
// nothing for an event that the client did not ask for.
func (f *Feed) event(e *wire.WatchEvent) (int, error) {
	if e.Type == kube.InitialEventsEnd {
		f.begun = true
		if !f.cfg.Bookmarks {
			return 0, nil
		}
		return f.bookmark(*e)
	}
	var n int
	var err error
	switch {
	case !f.cfg.Renderer.Whole() && !f.begun:
		n, err = f.rendered(e.Type, e.Object, f.cfg.Renderer.State)
	case !f.cfg.Renderer.Whole():
		n, err = f.rendered(e.Type, e.Object, f.cfg.Renderer.Event)
	default:
		n, err = f.whole(e.Type, e.Object)
	}
	f.known = max(f.known, e.ResourceVersion)
	return n, err
}

// rendered puts the line of an object that as renders.
func (f *Feed) rendered(t kube.EventType, o *wire.Object, as func(*wire.Object) ([]byte, error)) (int, error) {
	body, err := as(o)
	if err != nil {
		f.fail(err)
		return 0, err
	}
	f.parts = append(f.parts[:0], nil, body)
	return f.line(t, len(body))
}

// whole puts the line of an object as it is.
func (f *Feed) whole(t kube.EventType, o *wire.Object) (int, error) {
	f.parts = o.Parts(append(f.parts[:0], nil))
	return f.line(t, o.Size())
}

// bookmark puts the line of a bookmark in the client's form.
func (f *Feed) bookmark(e wire.WatchEvent) (int, error) {
	r := f.cfg.Renderer.Resource()
	line := wire.BookmarkFrame(r.APIVersion(), r.Kind, e.ResourceVersion, e.Type)
	if e.Since != 0 {
		line = wire.DeltaEndFrame(r.APIVersion(), r.Kind, e.ResourceVersion, e.Since)
	}
	f.known = max(f.known, e.ResourceVersion)
	if f.cfg.Renderer.Whole() {
		return len(line), f.put(line)
	}
	o, err := wire.ParseObject(line[len(wire.FrameHead(e.Type)):len(line)-len(wire.FrameTail)], nil)
	if err != nil {
		return 0, err
	}
	return f.rendered(e.Type, o, f.cfg.Renderer.Bookmark)
}

// heartbeat sends a bookmark even if its resourceVersion is not new: by the cadence the
// client knows that the watch is alive.
func (f *Feed) heartbeat() error {
	position := f.cfg.Watch.Position()
	if !f.cfg.Bookmarks || !f.begun || position == 0 {
		return nil
	}
	if _, err := f.bookmark(wire.WatchEvent{Type: kube.Bookmark, ResourceVersion: max(position, f.known)}); err != nil {
		return err
	}
	f.seen.Store(uint64(f.known))
	return f.sink.Flush()
}

// catchUp sends a bookmark if the watch is further than the client knows. It does so at
// the beginning and before every end that the server chooses, so that a client does not
// resume from an older resourceVersion than it must (an upstream bug).
func (f *Feed) catchUp() error {
	if f.cfg.Watch.Position() <= f.known {
		return nil
	}
	return f.heartbeat()
}

// fail puts the ERROR frame, which is the last one.
func (f *Feed) fail(err error) {
	f.cfg.Metrics.Expired(err)
	frame := f.cfg.Renderer.ErrorFrame(wire.StatusOf(err))
	if f.unframed {
		frame = protobuf.Unframed(frame)
	}
	_ = f.put(frame) // the client may be gone
}

func (f *Feed) put(line []byte) error {
	f.spoke = true
	return f.sink.Put(line)
}

// line puts the line of an object of so many bytes, which are in f.parts after the place
// of the head.
func (f *Feed) line(t kube.EventType, size int) (int, error) {
	f.spoke = true
	head, tail := f.cfg.Renderer.Frame(t, size)
	if f.unframed {
		head = protobuf.Unframed(head)
	}
	f.parts[0] = head
	f.parts = append(f.parts, tail)
	err := f.sink.Put(f.parts...)
	clear(f.parts)
	return len(head) + size + len(tail), err
}
