package fault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/fault/internal/conn"
	"github.com/gapless-io/gapless/fault/internal/frames"
)

// maxFrame is the largest frame that is understood; what is larger is passed on as it is, but
// a message of a WebSocket in parts ends the answer.
const maxFrame = frames.MaxMessage

var (
	errEnded    = errors.New("a fault has ended the answer")
	errTooLarge = errors.New("a message in parts is too large to find the events of a watch")
)

// Frames serves a watch with next and passes each frame of the answer to edit, which
// returns the frames to send instead. The first frame is of type Opened. edit is called by
// one goroutine at a time, for one watch; it may block. Answers that are no watch pass
// unchanged: errors of the server, and encodings besides JSON and protobuf.
func Frames(w http.ResponseWriter, r *http.Request, next http.Handler, edit func(Frame) []Frame) {
	s := &stream{client: r.Context(), edit: edit, turn: make(chan struct{}, 1), accept: r.Header.Get("Accept"), stop: func() {}}
	header := r.Header.Clone()
	for _, name := range []string{"Accept-Encoding", "Sec-WebSocket-Extensions"} {
		header.Del(name) // frames are not found in what is compressed
	}
	if c := conn.From(r.Context()); c != nil {
		s.mark = c.Writes()
	}
	out := frames.New(w, r, s, func(cut func()) { s.close = cut })
	if frames.IsUpgrade(r) { // it may outlive the handler
		inner := r.WithContext(r.Context())
		inner.Header = header
		next.ServeHTTP(out, inner)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.stop = cancel
	inner := r.WithContext(ctx)
	inner.Header = header
	defer s.finish() // also after a panic, by which next may end when it cannot go on
	next.ServeHTTP(out, inner)
}

// stream is the answer to one watch.
type stream struct {
	client context.Context //nolint:containedctx // the stream is the call
	edit   func(Frame) []Frame
	stop   func() // ends what next does
	accept string // what the client asked for

	removed atomic.Bool // by endAtRemoval

	// turn is the lock of all below: its holder owns the one token. A write may block; a
	// channel, unlike a mutex, lets synctest see that.
	turn   chan struct{}
	socket bool            // it is a WebSocket
	split  frames.Splitter // nil: everything passes unchanged
	form   Form
	to     io.Writer // sends at once
	close  func()    // cuts a WebSocket
	mark   int64     // how many writes the connection had before the last one to to
	buf    []byte
	ended  Ending
	over   bool // the handler has returned
	forget func()
	timers []*time.Timer
}

// Open implements frames.Body.
func (s *stream) Open(to io.Writer, header http.Header, code int) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.to = to
	s.form, s.split = JSON, &frames.JSON{}
	media := header.Get("Content-Type")
	switch {
	case strings.Contains(media, "protobuf"):
		s.form, s.split = Protobuf, frames.Protobuf{}
	case code != http.StatusSwitchingProtocols && !strings.Contains(media, "json"):
		s.split = nil
	}
	if c := header.Get("Content-Encoding"); c != "" && c != "identity" { // though nobody has asked for it
		s.split = nil
	}
	switch code {
	case http.StatusOK:
	case http.StatusSwitchingProtocols:
		s.socket, s.split = true, &frames.Socket{}
		if first, _, _ := strings.Cut(s.accept, ","); strings.Contains(first, "protobuf") {
			s.form = Protobuf
		}
	default:
		s.split = nil
	}
	if s.split != nil {
		if !s.socket {
			_ = s.writeLocked(nil) // the header; next notices the end
		}
		_ = s.sendLocked(s.edit(Frame{Type: Opened, Form: s.form, stream: s})) // next notices the end
	}
}

// Write implements frames.Body: it gets what next sends.
func (s *stream) Write(p []byte) (int, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.ended == Silent && s.socket {
		return len(p), nil
	}
	if s.ended != GoOn {
		return 0, errEnded
	}
	if s.split == nil {
		return s.to.Write(p)
	}
	s.buf = append(s.buf, p...)
	for s.ended == GoOn {
		body, n := s.split.Next(s.buf)
		if n == 0 {
			break
		}
		if n < 0 {
			s.endLocked(Severed)
			return 0, errTooLarge
		}
		if err := s.takeLocked(body, s.buf[:n]); err != nil {
			return 0, err
		}
		s.buf = s.buf[n:]
	}
	switch {
	case len(s.buf) == 0:
		s.buf = nil
	case len(s.buf) > maxFrame:
		s.split = nil
		if _, err := s.to.Write(s.buf); err != nil {
			return 0, err
		}
		s.buf = nil
	}
	return len(p), nil
}

// takeLocked sends what edit makes of a frame; raw are the bytes that it had.
func (s *stream) takeLocked(body, raw []byte) error {
	switch {
	case body == nil && (s.socket || len(bytes.TrimSpace(raw)) > 0): // a control frame, or no JSON
		_, err := s.to.Write(raw)
		return err
	case len(bytes.TrimSpace(body)) == 0: // between frames, or the beginning of one
		return nil
	}
	if s.socket {
		s.form = JSON
		if body[0] != '{' {
			s.form = Protobuf
		}
	}
	if s.form == JSON {
		body = bytes.TrimSpace(body)
	}
	body = bytes.Clone(body) // an action may keep it
	return s.sendLocked(s.edit(Frame{Type: frames.TypeOf(s.form == Protobuf, body), Form: s.form, Body: body, stream: s}))
}

// writeLocked sends bytes.
func (s *stream) writeLocked(p []byte) error {
	if c := conn.From(s.client); c != nil {
		s.mark = c.Writes()
	}
	_, err := s.to.Write(p)
	return err
}

// sendLocked sends frames, together where it can.
func (s *stream) sendLocked(frames []Frame) error {
	var out []byte
	flush := func() error {
		if len(out) == 0 {
			return nil
		}
		err := s.writeLocked(out)
		out = nil
		return err
	}
	for _, f := range frames {
		packed := s.pack(f)
		if f.Half {
			packed = packed[:len(packed)/2]
		}
		if f.Writes > 1 {
			if err := flush(); err != nil {
				return err
			}
			size := max(1, (len(packed)+f.Writes-1)/f.Writes)
			for ; len(packed) > size; packed = packed[size:] {
				if err := s.writeLocked(packed[:size]); err != nil {
					return err
				}
			}
		}
		out = append(out, packed...)
		if f.End != GoOn {
			err := flush()
			s.endLocked(f.End)
			return errors.Join(err, errEnded)
		}
	}
	return flush()
}

// pack returns a frame as it is sent.
func (s *stream) pack(f Frame) []byte {
	switch {
	case f.Type == Opened:
		return nil
	case !s.socket:
		return frames.Pack(f.Form == Protobuf, f.Body)
	case f.Form == Protobuf:
		return frames.SocketFrame(frames.Binary, f.Body)
	}
	return frames.SocketFrame(frames.Text, append(bytes.Clone(f.Body), '\n'))
}

// laterLocked is Frame.Later: its caller is edit, for which the turn is held.
func (s *stream) laterLocked(after time.Duration, do func() []Frame) {
	s.timers = append(s.timers, time.AfterFunc(after, func() {
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		if s.ended == GoOn && !s.over {
			_ = s.sendLocked(do()) // the client may be gone
		}
	}))
}

// endAtRemoval is Frame.EndAtRemoval. The removal does not take the turn: a write to a client
// that reads nothing may have it.
func (s *stream) endAtRemoval() {
	s.forget = injectionOf(s.client).atEnd(func() {
		s.removed.Store(true)
		if s.socket {
			s.close()
		}
		s.stop()
	})
}

// endLocked ends the answer. What finish does is left to it: only a handler can do it.
func (s *stream) endLocked(how Ending) {
	if s.ended != GoOn {
		return
	}
	s.ended = how
	c := conn.From(s.client)
	switch {
	case how == Silent && c != nil:
		c.Settle(s.mark)
		c.Silence(injectionOf(s.client).atEnd)
	case how == Reset && c != nil:
		c.Settle(s.mark)
		c.Reset()
	}
	if s.socket {
		s.endSocketLocked(how)
	}
	s.stop()
}

// endSocketLocked ends a WebSocket, whose handler may have returned.
func (s *stream) endSocketLocked(how Ending) {
	switch how {
	case Clean:
		_, _ = s.to.Write(frames.SocketFrame(frames.Close, []byte{0x03, 0xE8})) // 1000; the client may be gone
		s.close()
	case Silent:
		injectionOf(s.client).atEnd(s.close)
	case Severed, Reset:
		s.close()
	case GoOn:
	}
}

// finish ends the answer of a handler as was said. It is deferred, so that it sees the
// panic of a handler that noticed the end.
func (s *stream) finish() {
	cause := recover()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.over = true
	for _, t := range s.timers {
		t.Stop()
	}
	if s.forget != nil {
		s.forget()
	}
	if s.removed.Load() && s.ended == GoOn {
		s.ended = Severed
	}
	if cause != nil && (s.ended == GoOn || cause != http.ErrAbortHandler) { //nolint:errorlint // it is compared as net/http does
		panic(cause)
	}
	switch s.ended {
	case GoOn:
		if s.to != nil && len(s.buf) > 0 {
			_, _ = s.to.Write(s.buf) // the rest is no frame; the client may be gone
		}
	case Clean:
	case Silent:
		select {
		case <-s.client.Done():
		case <-Removed(s.client):
		}
		panic(http.ErrAbortHandler)
	case Severed, Reset:
		panic(http.ErrAbortHandler)
	}
}
