package stream

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// pingEvery keeps what is between client and server from forgetting an idle
// connection (upstream's server sends no pings).
const pingEvery = 30 * time.Second

// Why a WebSocket cannot be written to any more.
var (
	errEnded  = errors.New("the WebSocket has ended")
	errSilent = errors.New("the client has not answered a ping")
)

// Messages is what the messages of a WebSocket are.
type Messages int

// The kinds of messages.
const (
	Text   = Messages(opText)
	Binary = Messages(opBinary)
)

// socket sends each line as a message of one frame. The
// buffer holds whole frames, several when they queue up; only a frame that is
// larger than a piece is sent in pieces.
type socket struct {
	gather

	conn     net.Conn
	messages Messages
	gone     chan struct{} // closed when listen has ended
	pings    *time.Timer

	// turn is the lock of writes to conn: a writer holds its one token, and releases it
	// between two frames only. A write may block; a channel, unlike a mutex, lets synctest
	// see that.
	turn chan struct{}
	// over is guarded by turn: errEnded after a Close frame, or the error of a write.
	over error

	busy    atomic.Bool // something was written since the last tick of pings
	waiting atomic.Bool // for the answer to a ping
}

// Upgrade answers with 101 and returns the sink that sends messages. The client's
// only offered subprotocol, or the first, is echoed. left is called, from a
// goroutine that ends with the connection, when the client has gone. When the
// handshake is wrong it is answered with 4xx and an error returned.
func Upgrade(w http.ResponseWriter, r *http.Request, messages Messages, left func()) (Sink, error) {
	conn, from, err := accept(w, r)
	if err != nil {
		return nil, err
	}
	BoundUnsent(conn)
	s := &socket{conn: conn, messages: messages, gone: make(chan struct{}), turn: make(chan struct{}, 1)}
	s.send = s.write
	s.pings = time.AfterFunc(pingEvery, s.ping)
	s.pings.Reset(pingEvery) // so that ping sees what was set before
	go s.listen(from, left)  // ends when the client leaves, or with End
	return s, nil
}

// listen takes what the client sends, answers its pings, and looks for its end.
func (s *socket) listen(from io.Reader, left func()) {
	defer close(s.gone)
	defer left()
	frames := clientFrames{from: from, allowed: unexpectedBytes}
	for {
		op, payload, err := frames.next()
		if wrong, is := errors.AsType[*violation](err); is {
			_ = s.control(opClose, binary.BigEndian.AppendUint16(nil, uint16(wrong.code))) // it may be gone
		}
		switch {
		case err != nil:
			return
		case op == opClose:
			_ = s.control(opClose, payload[:min(2, len(payload))]) // it may be gone
			return
		case op == opPing:
			// A client that takes nothing waits for its pong, and is not cut off for it.
			if s.control(opPong, payload) != nil {
				return
			}
		case op == opPong:
			s.waiting.Store(false)
		}
	}
}

// ping pings an idle connection. A client that has not answered the previous ping is
// gone. A connection that is written to is not pinged: there TCP notices.
func (s *socket) ping() {
	select {
	case s.turn <- struct{}{}:
	default:
		s.pings.Reset(pingEvery)
		return
	}
	defer func() { <-s.turn }()
	switch {
	case s.over != nil:
		return
	case s.busy.Swap(false):
	case s.waiting.Swap(true):
		s.over = errSilent
		cut(s.conn) // listen ends, and says so
		return
	default:
		if s.frame(opPing, nil) != nil {
			return
		}
	}
	s.pings.Reset(pingEvery)
}

// control sends a control frame between two frames; nothing follows a Close.
func (s *socket) control(op opcode, payload []byte) error {
	s.turn <- struct{}{} // its holder ends with the connection, or at Limit
	defer func() { <-s.turn }()
	if s.over != nil {
		return s.over
	}
	err := s.frame(op, payload)
	if err == nil && op == opClose {
		s.over = errEnded
	}
	return err
}

// frame writes a control frame. The caller holds turn.
func (s *socket) frame(op opcode, payload []byte) error {
	var b [headerBytes + controlBytes]byte
	_, err := s.conn.Write(append(appendHeader(b[:0], op, len(payload)), payload...))
	s.over = err
	return err
}

// write sends a piece. The caller holds turn.
func (s *socket) write(piece []byte) error {
	if s.over != nil {
		return s.over
	}
	_, err := s.conn.Write(piece[before:])
	s.over = err
	s.busy.Store(true)
	return err
}

// Put implements Sink: a line is a message.
func (s *socket) Put(parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	var b [headerBytes]byte
	header := appendHeader(b[:0], opcode(s.messages), size)
	if s.room() < len(header)+size {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	if len(header)+size <= pieceBytes {
		return errors.Join(s.gather.Put(header), s.gather.Put(parts...)) // there is room
	}
	s.turn <- struct{}{} // see control
	defer func() { <-s.turn }()
	if err := s.gather.Put(header); err != nil {
		return err
	}
	if err := s.gather.Put(parts...); err != nil {
		return err
	}
	return s.gather.Flush()
}

// Flush implements Sink.
func (s *socket) Flush() error {
	if s.buf == nil {
		return nil
	}
	s.turn <- struct{}{} // see control
	defer func() { <-s.turn }()
	return s.gather.Flush()
}

// Limit implements Sink.
func (s *socket) Limit(t time.Time) { _ = s.conn.SetWriteDeadline(t) } // a closed connection needs none

// Gone implements Sink.
func (s *socket) Gone() <-chan struct{} { return s.gone }

// End implements Sink.
func (s *socket) End(e Ending) {
	code := closeNormal
	switch e {
	case Shutdown:
		code = closeGoingAway
	case Broken:
		code = closeInternal
	case Done:
	}
	_ = s.Flush() // the connection ends anyway, here and below
	late := time.Now().Add(goodbye)
	s.Limit(late) // a pong to a client that does not read must not block
	err := s.control(opClose, binary.BigEndian.AppendUint16(nil, uint16(code)))
	s.pings.Stop()
	switch {
	case err == nil:
		_ = s.conn.SetReadDeadline(late)
		<-s.gone // with the client's own Close
		hangUp(s.conn)
	case errors.Is(err, errEnded): // by the client
		hangUp(s.conn)
		<-s.gone
	default:
		cut(s.conn)
		<-s.gone
	}
}
