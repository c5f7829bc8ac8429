// Package stream carries the lines of a watch to one client.
//
// It has one noun, the [Sink], and three of them: [Hijack] takes a connection of
// HTTP/1.1 out of the hands of net/http, so that an idle watch needs little more
// than its connection; [Respond] writes an answer as a handler does (HTTP/2, and
// where a connection cannot be taken over); [Upgrade] speaks WebSocket. All of
// them gather lines and send them together, and hold memory only while they do.
package stream

import (
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Ending says why the server ends a stream; a WebSocket tells it by its code.
type Ending int

// How a stream ends.
const (
	Done     Ending = iota // its time is over, or its ERROR frame was sent
	Shutdown               // the server goes away
	Broken                 // something is wrong with the server: it must not look like an end
)

// Sink is one client's end of a watch. Put, Flush and End are called by one
// goroutine at a time; Limit and Gone by any, until End has returned.
type Sink interface {
	// Put adds one line, given in parts, to what goes to the client; it may send what
	// was gathered before. The parts are not kept. It blocks while the client takes
	// nothing, and returns an error when the client is gone or Limit has passed.
	Put(head, body, tail []byte) error
	// Flush sends what was gathered. It blocks and fails like Put.
	Flush() error
	// Limit makes writes fail that are not through at t.
	Limit(t time.Time)
	// Gone is closed when the client has left, or the stream has ended.
	Gone() <-chan struct{}
	// End sends what was gathered, ends the stream as the protocol does, and gives
	// everything back. Nothing may be called after it. Broken ends it in a way that the
	// client sees: where a handler must do that, End panics with http.ErrAbortHandler.
	End(e Ending)
}

const (
	// pieceBytes is how much is gathered before it is sent: two TLS records.
	pieceBytes = 32 << 10
	// before and after are the room for what a transfer coding puts around a piece.
	before, after = 10, 2
)

// gather collects lines in a buffer that it holds only until they are sent.
type gather struct {
	buf *[]byte // nil, or before bytes of room and then what was gathered
	zip bool    // each piece is sent as a gzip member of its own
	// send writes a piece that has before bytes of room in front of it.
	send func(piece []byte) error
}

// memory is the scratch memory of all streams of a process.
type memory struct {
	pieces  sync.Pool
	zippers sync.Pool
}

//nolint:gochecknoglobals // pools of scratch memory, shared by all servers of a process
var scratch = memory{
	pieces: sync.Pool{New: func() any { b := make([]byte, 0, before+pieceBytes+after); return &b }},
	zippers: sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for unknown levels only
		return z
	}},
}

func piece() *[]byte {
	b := scratch.pieces.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	*b = (*b)[:before]
	return b
}

func giveBack(b *[]byte) {
	if cap(*b) <= 2*(before+pieceBytes+after) {
		scratch.pieces.Put(b)
	}
}

// Put implements Sink.
func (g *gather) Put(head, body, tail []byte) error {
	for _, part := range [...][]byte{head, body, tail} {
		for len(part) > 0 {
			if g.buf == nil {
				g.buf = piece()
			}
			// A line that is larger than a piece goes in several, so that a blocked
			// client never holds more.
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

// room is how many bytes a piece still takes.
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
	if g.zip {
		zipped := piece()
		pack(zipped, (*b)[before:])
		giveBack(b)
		b = zipped
	}
	err := g.send(*b)
	giveBack(b)
	return err
}

// pack appends p as a gzip member. Any reader of gzip takes members one after the
// other, and between them an idle stream needs no compressor
// (apiserver handlers/watch.go perFlushGzipWriter). The flush before the end lets
// a reader give all of p out before it looks for the next member: Go's would
// otherwise keep the last bytes until that comes.
func pack(to *[]byte, p []byte) {
	z := scratch.zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool holds nothing else
	z.Reset((*appender)(to))
	_, _ = z.Write(p) // an appender does not fail
	_ = z.Flush()
	_ = z.Close()
	z.Reset(nil)
	scratch.zippers.Put(z)
}

// appender is a slice as an io.Writer.
type appender []byte

// Write implements io.Writer.
func (a *appender) Write(p []byte) (int, error) {
	*a = append(slices.Grow(*a, len(p)), p...)
	return len(p), nil
}
