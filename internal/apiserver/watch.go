package apiserver

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/kube"
)

const (
	// bookmarkEvery and bookmarkBefore are upstream's cadence: each minute, and two
	// seconds before the deadline (server.md 3.4).
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
	// writeWithin is how long one write to a client of HTTP/1.1 may take before the
	// watch is given up; HTTP/2 connections have limits of their own.
	writeWithin = 30 * time.Second
	// writeBytes is what a client of HTTP/1.1 must take in that time.
	writeBytes = 32 << 10
	// quietWithin is how long a watch lasts at least when it ends without a word:
	// fabric8 7.8 takes a shorter one for an expired resourceVersion (ecosystem.md 0.6).
	quietWithin = 2 * time.Second
)

// Why a watch wakes up other than for events.
var (
	errTick     = errors.New("time for a bookmark or the end")
	errDraining = errors.New("server is draining")
)

// watch serves a watch until the client leaves, its time is over, its history is
// gone or the server drains.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, rt route) error {
	into, err := negotiate(r, verbWatch)
	if err != nil {
		return err
	}
	p, err := newPainter(r, rt, into)
	if err != nil {
		return err
	}
	o, err := watchOptions(r, &rt)
	if err != nil {
		return err
	}
	if s.draining.Err() != nil {
		return shuttingDown()
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.draining, func() { cancel(errDraining) }) //nolint:contextcheck // the server's end is not the request's
	defer stop()
	f := &feed{
		w: w, ctl: http.NewResponseController(w), painter: p, bookmarks: o.Bookmarks,
		sent: o.RV, metrics: s.metrics.watching(rt), http1: r.ProtoMajor == 1,
	}
	timeout := s.watchTimeout(o)
	stream, err := s.cfg.Reader.Watch(ctx, rt.Target, o)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errDraining):
		return shuttingDown()
	case err != nil && !inStream(err):
		return err
	}
	// The end of the answer has a time limit of its own.
	defer f.patience()
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(http.StatusOK)
	if err != nil {
		f.end(err)
		return nil
	}
	defer stream.Close()
	if timeout < 0 || f.flush() != nil {
		return nil
	}
	began := time.Now()
	f.deadline = began.Add(timeout)
	if f.run(ctx, stream) && !f.spoke {
		linger(r.Context(), began.Add(quietWithin))
	}
	return nil
}

func shuttingDown() error { return kube.Unavailable("apiserver is shutting down", time.Second) }

// linger waits until a time, or until the client leaves.
func linger(ctx context.Context, until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watchOptions reads the query; a name in a deprecated /watch/ path becomes a
// field selector.
func watchOptions(r *http.Request, rt *route) (kube.ListOptions, error) {
	o, err := kube.ParseListOptions(r.URL.Query(), true)
	if err != nil {
		return o, err
	}
	if err := kube.CheckFields(o.Fields, rt.Resource.Fields); err != nil {
		return o, err
	}
	if rt.Name != "" {
		o.Fields = fields.AndSelectors(o.Fields, fields.OneTermEqualSelector("metadata.name", rt.Name))
		rt.Name = ""
	}
	return o, nil
}

// inStream says that an error belongs into the stream: clients expect a 200 and
// an ERROR frame (server.md 1.3; kube-rs loops on an HTTP 410).
func inStream(err error) bool {
	_, expired := errors.AsType[*kube.ExpiredError](err)
	_, tooLarge := errors.AsType[*kube.TooLargeResourceVersionError](err)
	return expired || tooLarge
}

// watchTimeout is how long the watch may last; negative: it ends at once.
func (s *Server) watchTimeout(o kube.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds != 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	least := s.cfg.MinRequestTimeout
	return least + rand.N(least) // so that clients do not come back all at once
}

// feed is one watch on its way to one client.
type feed struct {
	w         http.ResponseWriter
	ctl       *http.ResponseController
	painter   *painter
	metrics   *watchMetrics
	http1     bool
	bookmarks bool
	deadline  time.Time

	sent    kube.ResourceVersion // the last that the client knows, by an event or a bookmark
	initial bool                 // the initial events are under way: no bookmark now
	spoke   bool                 // a frame was written
	room    int                  // how much may be written until more time is given
}

// run writes until the end, and says the end where the protocol can. It returns
// true when the end is the server's alone: it drains, or the resource is gone.
func (f *feed) run(ctx context.Context, stream kube.Watch) bool {
	f.initial = stream.Position() == 0
	if !f.initial && f.catchUp(stream) != nil {
		return false
	}
	next := f.nextTick(time.Now())
	for {
		wait, cancel := context.WithDeadlineCause(ctx, next, errTick)
		events, err := stream.Next(wait)
		cancel()
		switch {
		case err == nil:
			err = f.write(events)
		case errors.Is(err, errTick) && time.Now().Before(f.deadline):
			err = f.heartbeat(stream)
			next = f.nextTick(time.Now())
		case errors.Is(err, errTick), errors.Is(err, errDraining), errors.Is(err, io.EOF):
			_ = f.catchUp(stream) // the end comes anyway
			return !errors.Is(err, errTick)
		case ctx.Err() != nil:
			return false // the client left
		default:
			f.end(err)
			return false
		}
		if err != nil {
			return false // the client does not take what is written
		}
	}
}

// nextTick is when the next bookmark is due, or the end.
func (f *feed) nextTick(now time.Time) time.Time {
	last := f.deadline.Add(-bookmarkBefore)
	switch {
	case !f.bookmarks || !now.Before(last):
		return f.deadline
	case now.Add(bookmarkEvery).Before(last):
		return now.Add(bookmarkEvery)
	default:
		return last
	}
}

// write sends a batch and flushes it once.
func (f *feed) write(events []kube.WatchEvent) error {
	f.patience()
	count, bytes := 0, 0
	for i := range events {
		e := &events[i]
		frame, err := f.frame(e)
		if err != nil {
			f.end(err)
			return err
		}
		if len(frame) == 0 {
			continue
		}
		if err := f.put(frame); err != nil {
			return err
		}
		count++
		bytes += len(frame)
		f.sent = max(f.sent, e.ResourceVersion)
	}
	f.metrics.sent(count, bytes)
	return f.ctl.Flush()
}

// frame returns the line of an event in the client's shape, nothing for an event
// that it did not ask for.
func (f *feed) frame(e *kube.WatchEvent) ([]byte, error) {
	if e.Type == kube.InitialEventsEnd {
		f.initial = false
		if !f.bookmarks {
			return nil, nil
		}
		return f.bookmark(e.ResourceVersion, kube.InitialEventsEnd)
	}
	if f.painter.shape == shapeObject {
		return e.Frame, nil
	}
	return f.painted(e.Type, e.Object)
}

func (f *feed) painted(t kube.EventType, o *kube.Object) ([]byte, error) {
	f.painter.now = time.Now()
	body, err := f.painter.object(o)
	if err != nil {
		return nil, err
	}
	line := append([]byte(`{"type":"`+t.String()+`","object":`), body...)
	return append(line, "}\n"...), nil
}

// bookmark returns the line of a bookmark in the client's shape.
func (f *feed) bookmark(rv kube.ResourceVersion, t kube.EventType) ([]byte, error) {
	r := f.painter.resource
	line := kube.BookmarkFrame(r.APIVersion(), r.Kind, rv, t)
	if f.painter.shape == shapeObject {
		return line, nil
	}
	const head, tail = `{"type":"BOOKMARK","object":`, "}\n"
	o, err := kube.ParseObject(line[len(head):len(line)-len(tail)], nil)
	if err != nil {
		return nil, err
	}
	return f.painted(t, o)
}

// heartbeat sends a bookmark whether or not it says anything new: a client that
// counts on the cadence knows by it that the watch is alive.
func (f *feed) heartbeat(stream kube.Watch) error {
	position := stream.Position()
	if !f.bookmarks || f.initial || position == 0 {
		return nil
	}
	line, err := f.bookmark(max(position, f.sent), kube.Bookmark)
	if err != nil {
		return err
	}
	f.patience()
	if err := f.put(line); err != nil {
		return err
	}
	f.sent = max(f.sent, position)
	return f.ctl.Flush()
}

// catchUp sends a bookmark if the stream is further than the client knows. It
// is sent at the attach and before every end that the server chooses, so that a
// client never comes back with an older resourceVersion than it must
// (server.md 3.4: the upstream hole).
func (f *feed) catchUp(stream kube.Watch) error {
	if stream.Position() <= f.sent {
		return nil
	}
	return f.heartbeat(stream)
}

// end writes the ERROR frame, which is the last.
func (f *feed) end(err error) {
	f.patience()
	if f.put(kube.ErrorFrame(kube.StatusOf(err))) == nil {
		_ = f.ctl.Flush() // nothing is left to do when the client is gone
	}
}

func (f *feed) flush() error {
	f.patience()
	return f.ctl.Flush()
}

// put writes a frame, and gives each part of a large one its time.
func (f *feed) put(frame []byte) error {
	f.spoke = true
	for len(frame) > 0 {
		if f.room == 0 {
			f.patience()
		}
		n := min(len(frame), f.room)
		if _, err := f.w.Write(frame[:n]); err != nil {
			return err
		}
		f.room -= n
		frame = frame[n:]
	}
	return nil
}

// patience gives a write its time. HTTP/2 has none here: its timer would reset
// the stream later, also when nothing was being written.
func (f *feed) patience() {
	f.room = math.MaxInt
	if f.http1 {
		f.room = writeBytes
		_ = f.ctl.SetWriteDeadline(time.Now().Add(writeWithin)) // without support there is no limit
	}
}
