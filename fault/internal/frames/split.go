// Package frames is what the answers to watches look like on the wire.
//
// A [Splitter] finds the frames in bytes that arrive piece by piece. A [Tap]
// is a ResponseWriter whose bytes go through a [Body], whatever the server does to bypass it. A
// [Recorder] is one that keeps them.
package frames

import "encoding/binary"

// Splitter finds frames in bytes that arrive piece by piece.
type Splitter interface {
	// Next returns the body of the next frame and how many bytes of buf it takes. A body of
	// nil is bytes that are no frame, and 0 bytes mean that more must arrive. Less than 0 says
	// that a message in parts is larger than MaxMessage.
	Next(buf []byte) (body []byte, n int)
}

// MaxMessage bounds what is kept of a message in parts.
const MaxMessage = 64 << 20

// JSON finds JSON values: a server may spread one over lines.
type JSON struct {
	at, depth       int
	inText, escaped bool
}

// Next implements Splitter.
func (s *JSON) Next(buf []byte) ([]byte, int) {
	for ; s.at < len(buf); s.at++ {
		c := buf[s.at]
		switch {
		case s.escaped:
			s.escaped = false
		case s.inText && c == '\\':
			s.escaped = true
		case c == '"':
			s.inText = !s.inText
		case s.inText:
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				n := s.at + 1
				*s = JSON{}
				return buf[:n], n
			}
		case c == '\n' && s.depth == 0:
			n := s.at + 1 // between frames
			*s = JSON{}
			return nil, n
		}
	}
	return nil, 0
}

// LengthBytes is the size of the length before an event in protobuf: apimachinery util/framer.
const LengthBytes = 4

// Protobuf finds messages with a length before them.
type Protobuf struct{}

// Next implements Splitter.
func (Protobuf) Next(buf []byte) ([]byte, int) {
	if len(buf) < LengthBytes {
		return nil, 0
	}
	n := LengthBytes + int(binary.BigEndian.Uint32(buf))
	if len(buf) < n {
		return nil, 0
	}
	return buf[LengthBytes:n], n
}

// Of RFC 6455 5.2.
const (
	finalBit     = 0x80
	opBits       = 0x0F
	lenBits      = 0x7F
	firstControl = 0x8
	twoBytes     = 126 // a length in two bytes follows
	manyBytes    = 127 // a length in eight bytes follows
)

// Socket finds the messages that a server sends on a WebSocket.
type Socket struct {
	message []byte // what has arrived of one in parts
}

// Next implements Splitter.
func (s *Socket) Next(buf []byte) ([]byte, int) {
	if len(buf) < 2 {
		return nil, 0
	}
	head, size := 2, uint64(buf[1]&lenBits)
	switch size {
	case twoBytes:
		if head = 4; len(buf) >= head {
			size = uint64(binary.BigEndian.Uint16(buf[2:]))
		}
	case manyBytes:
		if head = 10; len(buf) >= head {
			size = binary.BigEndian.Uint64(buf[2:])
		}
	}
	if len(buf) < head || uint64(len(buf)-head) < size {
		return nil, 0
	}
	n := head + int(size)
	if buf[0]&opBits >= firstControl {
		return nil, n
	}
	if len(s.message)+n > MaxMessage {
		return nil, -1
	}
	s.message = append(s.message, buf[head:n]...)
	if buf[0]&finalBit == 0 {
		return []byte{}, n // to be continued
	}
	whole := s.message
	if s.message = nil; whole == nil {
		whole = []byte{} // an empty message is one, too
	}
	return whole, n
}

// The kinds of frames of a WebSocket.
const (
	Text   = 0x1
	Binary = 0x2
	Close  = 0x8
)

// SocketFrame returns a frame of a WebSocket: a whole message, or a control frame.
func SocketFrame(op byte, payload []byte) []byte {
	b := append(make([]byte, 0, len(payload)+10), finalBit|op)
	switch n := len(payload); {
	case n < twoBytes:
		b = append(b, byte(n))
	case n <= 0xFFFF:
		b = binary.BigEndian.AppendUint16(append(b, twoBytes), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, manyBytes), uint64(n))
	}
	return append(b, payload...)
}
