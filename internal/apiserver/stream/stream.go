// Package stream carries the lines of a watch to one client.
//
// A [Sink] is where a watch is sent, with three implementations: [Hijack] takes over a
// connection of HTTP/1.1 from net/http, so that an idle watch needs little more
// than its connection; [Respond] writes the answer of a handler (HTTP/2, and
// connections that cannot be taken over); [Upgrade] is a WebSocket. All of
// them buffer lines and send them together, and hold the buffer only until it is sent.
//
// zipped.go compresses watches.
package stream

import (
	"sync"
	"time"
)

// Ending says why the server ends a stream; a WebSocket sends it as its close code.
type Ending int

// How a stream ends.
const (
	Done     Ending = iota // its deadline has passed, or its ERROR frame was sent
	Shutdown               // the server shuts down
	Broken                 // the server failed: it must not look like a regular end
)

// Sink is one client's end of a watch. Put, Flush and End are called by one
// goroutine at a time; Limit and Gone by any, until End has returned.
type Sink interface {
	// Put buffers one line, given in parts; it may send what was buffered before. The
	// parts are not kept. It blocks while the client reads nothing, and returns an error
	// when the client is gone or Limit has passed.
	Put(parts ...[]byte) error
	// Flush sends what was buffered. It blocks and fails like Put.
	Flush() error
	// Limit makes writes fail that are not done at t.
	Limit(t time.Time)
	// Gone is closed when the client has left, or the stream has ended.
	Gone() <-chan struct{}
	// End sends what was buffered, ends the stream as the protocol does, and releases
	// everything. Nothing may be called after it. For Broken it cuts the connection: where
	// a handler must do that, End panics with http.ErrAbortHandler.
	End(e Ending)
}

const (
	// pieceBytes is how much is buffered before it is sent: two TLS records.
	pieceBytes = 32 << 10
	// before and after are the space that a transfer coding needs around a piece.
	before, after = 10, 2
)

// gather buffers lines; it holds the buffer only until they are sent.
type gather struct {
	buf *[]byte // nil, or before bytes of space and then the lines
	zip *zipped // nil: not compressed
	// send writes a piece that has before bytes of space in front of it.
	send func(piece []byte) error
}

//nolint:gochecknoglobals // scratch memory, shared by all servers of a process
var pieces = sync.Pool{New: func() any { b := make([]byte, 0, before+pieceBytes+after); return &b }}

func piece() *[]byte {
	b := pieces.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	*b = (*b)[:before]
	return b
}

func giveBack(b *[]byte) {
	if cap(*b) <= 2*(before+pieceBytes+after) {
		pieces.Put(b)
	}
}

// Put implements Sink.
func (g *gather) Put(parts ...[]byte) error {
	for _, part := range parts {
		for len(part) > 0 {
			if g.buf == nil {
				g.buf = piece()
			}
			// A line that is larger than a piece is sent in several, so that a stalled
			// client never holds more than a piece.
			n := min(len(part), g.room())
			if n == 0 {
				if err := g.Flush(); err != nil {
					return err
				}
				continue
			}
			*g.buf = append(*g.buf, part[:n]...)
			part = part[n:]
		}
	}
	return nil
}

// room is how many bytes the piece has space for.
func (g *gather) room() int {
	if g.buf == nil {
		return pieceBytes
	}
	return before + pieceBytes - len(*g.buf)
}

// Flush implements Sink.
func (g *gather) Flush() error {
	if g.buf == nil {
		return nil
	}
	b := g.buf
	g.buf = nil
	if g.zip != nil {
		plain := b
		b = g.zip.deflate((*plain)[before:])
		giveBack(plain)
	}
	err := g.send(*b)
	giveBack(b)
	return err
}

// finish sends what was buffered, and the end of the body.
func (g *gather) finish() error {
	if err := g.Flush(); err != nil || g.zip == nil {
		return err
	}
	b := g.zip.close()
	err := g.send(*b)
	giveBack(b)
	return err
}
