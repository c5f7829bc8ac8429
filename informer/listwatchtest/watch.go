package listwatchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// Ends of a stream that its writer implements.
var (
	errHalf    = errors.New("cut in a frame")
	errGarbage = errors.New("no JSON")
	errSilent  = errors.New("silent")
)

// stream is an open watch. One goroutine uses it.
type stream struct {
	s        *Server
	r        Request
	f        Fault
	known    *Position
	boot     int
	bookmark int
	ended    int
	epoch    int
	position int // events up to this resource version are queued
	asked    int
	queue    []client.Frame
	sent     int
	tick     time.Time
	end      time.Time
	last     bool  // the time is over, this is the last round
	refused  error // ends the watch instead of the first frame
	over     error // why the stream has ended
}

// watch opens a watch after the fault's delay.
func (s *Server) watch(ctx context.Context, r Request, f Fault, known *Position) (*stream, error) {
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &stream{
		s: s, r: r, f: f, known: known, boot: s.boot, bookmark: s.bookmark, ended: s.ended, epoch: len(s.epochs) - 1,
		tick: time.Now().Add(s.bookmarkEvery()), end: time.Now().Add(time.Duration(r.Seconds) * time.Second),
	}
	if r.Seconds == 0 {
		w.end = time.Now().Add(time.Hour)
	}
	w.asked, _ = strconv.Atoi(r.RV)
	w.position = w.asked
	w.beginLocked()
	s.open++
	return w, nil
}

func (s *Server) bookmarkEvery() time.Duration {
	if s.BookmarkEvery > 0 {
		return s.BookmarkEvery
	}
	return time.Minute
}

// beginLocked sets the position at which the stream starts, and queues the initial events.
func (w *stream) beginLocked() {
	s, now := w.s, w.s.nowLocked().rv()
	lost := w.known.lostLocked(s, w.position)
	switch {
	case w.r.Initial && !w.f.Plain:
		if w.position > now {
			w.refused = TooLarge()
			return
		}
		w.initialLocked(now)
	case w.r.RV == "": // synthetic ADDED events, without a bookmark at their end
		w.position = now
		w.state(s.nowLocked().now())
	case w.position < s.floor, s.RefuseLost && lost && !w.f.AcceptLost:
		w.refused = expired("too old resource version: 1 (2)")
	case w.position > now && w.f.RefuseAhead:
		w.refused = TooLarge()
	default:
		w.known.followLocked(s, lost)
		if w.position <= now {
			w.position = max(w.position-w.f.Repeat, s.floor)
		}
	}
}

// initialLocked queues the initial events.
func (w *stream) initialLocked(now int) {
	e := w.s.nowLocked()
	w.position = now
	if w.asked > 0 { // a consistent read is never behind
		w.position = max(now-w.f.Behind, e.first)
	}
	if w.f.Live {
		w.position = max(now-3, e.first)
	}
	w.state(e.at(w.position))
	if w.f.Live {
		w.eventsLocked(now)
	}
	if w.f.Unknown != "" {
		w.push(0, []byte(w.f.Unknown))
	}
	if w.f.NoEnd {
		return
	}
	w.mark(kube.InitialEventsEnd, w.position)
	if w.f.Twice {
		w.mark(kube.InitialEventsEnd, w.position)
	}
}

func (w *stream) push(t kube.EventType, raw []byte) {
	if w.f.SwapTypes && (t == kube.Added || t == kube.Modified) {
		t = kube.Added + kube.Modified - t
	}
	w.queue = append(w.queue, client.Frame{Type: t, Object: raw})
}

// mark queues a bookmark of type t.
func (w *stream) mark(t kube.EventType, rv int) {
	more, version := "", strconv.Itoa(rv)
	if t == kube.InitialEventsEnd {
		more = `,"annotations":{"k8s.io/initial-events-end":"true"}`
		if w.f.NoRV {
			version = ""
		}
	}
	w.push(t, fmt.Appendf(nil, `{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":%q%s}}`, w.s.kind(), version, more))
}

// state queues an ADDED event for each object.
func (w *stream) state(state State) {
	n := 0
	state.Scan(func(_ string, v *Version) bool {
		if w.mine(v) {
			w.push(kube.Added, v.Raw)
		}
		if n++; w.f.OldBookmark && n == state.Len()/2+1 { // without the annotation of the end
			w.mark(kube.Bookmark, w.position)
		}
		return true
	})
}

func (w *stream) mine(v *Version) bool {
	return w.r.Namespace == "" || v.Key.Namespace == w.r.Namespace
}

// eventsLocked queues the events up to the resource version now.
func (w *stream) eventsLocked(now int) {
	first := len(w.queue)
	for _, c := range w.s.nowLocked().after(w.position) {
		if c.RV <= now && w.mine(c.Version) {
			w.push(c.Type, c.Version.Raw)
		}
	}
	w.position = max(w.position, now)
	if fresh := len(w.queue) - first; w.f.Twice && fresh > 1 {
		w.queue = append(w.queue, w.queue[len(w.queue)-1-fresh/2:]...)
	}
}

// ready reports whether next returns a frame without waiting.
func (w *stream) ready() bool { return len(w.queue) > 0 && (w.f.End == "" || w.sent < w.f.After) }

// next waits for a frame. Its errors are io.EOF at a clean end, io.ErrUnexpectedEOF for a
// cut, a Status, the context's cause, and errHalf, errGarbage and errSilent. With the first
// of these three it returns the frame that was next.
func (w *stream) next(ctx context.Context) (client.Frame, error) {
	for {
		wake, until := w.turn(ctx)
		if w.over != nil {
			return client.Frame{}, w.over
		}
		if len(w.queue) > 0 {
			f := w.queue[0]
			if err := w.breaks(); err != nil {
				w.over = err
				return f, err
			}
			w.queue = w.queue[1:]
			w.sent++
			if f.Type == kube.InitialEventsEnd {
				w.known.answered(w.epoch)
			}
			return f, nil
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// breaks returns errHalf or errGarbage if the next frame is to be broken, else nil.
func (w *stream) breaks() error {
	switch {
	case w.sent < w.f.After:
	case w.f.End == "half":
		return errHalf
	case w.f.End == "garbage":
		return errGarbage
	}
	return nil
}

// ending returns the error that ends the stream now, or nil.
func (w *stream) ending() error {
	if w.sent < w.f.After {
		return nil
	}
	switch w.f.End {
	case "eof":
		return io.EOF
	case "cut":
		return io.ErrUnexpectedEOF
	case "silent":
		return errSilent
	}
	return w.f.status()
}

// turn queues the frames that are due, and returns what to wait for if there are none.
func (w *stream) turn(ctx context.Context) (wake chan struct{}, until time.Time) {
	if w.over == nil {
		w.over = w.ending()
	}
	if w.over == nil {
		w.over = w.refused
	}
	if w.over == nil && ctx.Err() != nil {
		w.over = context.Cause(ctx)
	}
	if w.over != nil {
		return nil, until
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.boot != s.boot:
		w.over = io.ErrUnexpectedEOF
	case len(w.queue) > 0:
	case w.ended != s.ended:
		w.over = s.ending
	default:
		w.dueLocked()
	}
	if w.tick.Before(w.end) {
		return s.wake, w.tick
	}
	return s.wake, w.end
}

// dueLocked queues events, and bookmarks when it is time.
func (w *stream) dueLocked() {
	s := w.s
	now := s.nowLocked().rv()
	if !s.healed {
		now -= w.f.Behind
	}
	w.eventsLocked(now)
	if w.f.Bad != "" && w.sent >= w.f.BadAfter {
		w.push(kube.Modified, []byte(w.f.Bad))
		w.f.Bad = ""
	}
	if w.last && len(w.queue) == 0 {
		w.over = io.EOF
		return
	}
	clock := time.Now()
	w.last = !clock.Before(w.end)
	if due := w.bookmark != s.bookmark; due || w.last || !clock.Before(w.tick) {
		w.bookmark = s.bookmark
		w.tick = clock.Add(s.bookmarkEvery())
		w.bookmarkLocked()
	}
	if w.last && len(w.queue) == 0 {
		w.over = io.EOF
	}
}

func (w *stream) bookmarkLocked() {
	now := w.s.nowLocked().rv()
	switch {
	case !w.r.Bookmarks, w.f.NoBookmarks, w.s.SilentAhead && w.asked > now:
	case w.f.OldBookmark && w.asked > 0:
		w.mark(kube.Bookmark, w.asked-2)
		w.f.OldBookmark = false
	default:
		w.mark(kube.Bookmark, min(w.position, now))
	}
}

func (w *stream) close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.open--
}
