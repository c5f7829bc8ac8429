package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// opcode is the kind of a frame (RFC 6455 5.2).
type opcode byte

const (
	opContinuation opcode = 0x0
	opText         opcode = 0x1
	opBinary       opcode = 0x2
	opClose        opcode = 0x8
	opPing         opcode = 0x9
	opPong         opcode = 0xA
)

// closeCode says why a WebSocket ends (RFC 6455 7.4.1).
type closeCode uint16

const (
	closeNormal    closeCode = 1000
	closeGoingAway closeCode = 1001
	closeProtocol  closeCode = 1002
	closePolicy    closeCode = 1008
	closeInternal  closeCode = 1011
)

const (
	// headerBytes is the longest header of a frame that a server sends.
	headerBytes = 10
	// controlBytes is the longest payload of a control frame: RFC 6455 5.5.
	controlBytes = 125
)

const (
	finalBit  = 0x80
	maskBit   = 0x80
	rsvBits   = 0x70
	opBits    = 0x0F
	lenBits   = 0x7F
	twoBytes  = 126 // a length in two bytes follows
	manyBytes = 127 // a length in eight bytes follows
)

// appendHeader appends the header of a whole message, or of a control frame, that
// a server sends: final and not masked.
func appendHeader(to []byte, op opcode, payload int) []byte {
	to = append(to, finalBit|byte(op))
	switch {
	case payload < twoBytes:
		return append(to, byte(payload))
	case payload <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(to, twoBytes), uint16(payload))
	default:
		return binary.BigEndian.AppendUint64(append(to, manyBytes), uint64(payload))
	}
}

// violation is a protocol error of the client, with the close code for it.
type violation struct {
	code closeCode
	text string
}

func (v *violation) Error() string { return fmt.Sprintf("%s (%d)", v.text, v.code) }

func broken(text string) error { return &violation{closeProtocol, text} }

// clientFrames reads what a client sends: it returns control frames, and skips messages
// as long as they are few.
type clientFrames struct {
	from    io.Reader
	allowed int64 // bytes of messages that are still skipped, with one for each frame
	within  bool  // a message has begun and not ended

	header  [12]byte
	mask    [4]byte // of the frame whose header was read last
	payload [controlBytes]byte
}

// next returns the next control frame. The payload is valid until the next call. After a
// *violation the connection must be closed; any other error is the connection's.
func (c *clientFrames) next() (opcode, []byte, error) {
	for {
		op, length, err := c.head()
		switch {
		case err != nil:
			return 0, nil, err
		case op < opClose:
			if err := c.skip(length); err != nil {
				return 0, nil, err
			}
			continue
		}
		payload := c.payload[:length]
		if _, err := io.ReadFull(c.from, payload); err != nil {
			return 0, nil, err
		}
		for i := range payload {
			payload[i] ^= c.mask[i%len(c.mask)]
		}
		if op == opClose && !validClose(payload) {
			return 0, nil, broken("a Close frame without a valid code")
		}
		return op, payload, nil
	}
}

// head reads the header of a frame and checks it. The length of a control frame
// is at most controlBytes.
func (c *clientFrames) head() (op opcode, length uint64, err error) {
	h := c.header[:2]
	if _, err := io.ReadFull(c.from, h); err != nil {
		return 0, 0, err
	}
	first, second := h[0], h[1]
	op = opcode(first & opBits)
	if err := c.check(op, first, second); err != nil {
		return 0, 0, err
	}
	length = uint64(second & lenBits)
	more := len(c.mask)
	switch length {
	case twoBytes:
		more += 2
	case manyBytes:
		more += 8
	}
	h = c.header[:more]
	if _, err := io.ReadFull(c.from, h); err != nil {
		return 0, 0, unexpected(err)
	}
	switch length {
	case twoBytes:
		length = uint64(binary.BigEndian.Uint16(h))
	case manyBytes:
		length = binary.BigEndian.Uint64(h)
	}
	copy(c.mask[:], h[more-len(c.mask):])
	if op < opClose {
		c.within = first&finalBit == 0
	}
	return op, length, nil
}

// check checks the first two bytes of a frame.
func (c *clientFrames) check(op opcode, first, second byte) error {
	switch {
	case first&rsvBits != 0:
		return broken("a frame of an extension that was not agreed on")
	case second&maskBit == 0:
		return broken("a frame that is not masked")
	}
	switch op {
	case opText, opBinary:
		if c.within {
			return broken("a message inside a message")
		}
	case opContinuation:
		if !c.within {
			return broken("the continuation of no message")
		}
	case opClose, opPing, opPong:
		if first&finalBit == 0 || second&lenBits > controlBytes {
			return broken("a control frame in parts, or too long")
		}
	default:
		return broken(fmt.Sprintf("a frame of unknown kind %d", op))
	}
	return nil
}

// skip discards the payload of a message.
func (c *clientFrames) skip(length uint64) error {
	if length >= uint64(c.allowed) {
		return &violation{closePolicy, "nothing is expected on a watch"}
	}
	c.allowed -= int64(length) + 1
	_, err := io.CopyN(io.Discard, c.from, int64(length))
	return unexpected(err)
}

// unexpected turns io.EOF inside a frame into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// validClose reports whether a Close frame has no code, or one that may be sent:
// RFC 6455 7.4.
func validClose(payload []byte) bool {
	switch len(payload) {
	case 0:
		return true
	case 1:
		return false
	}
	switch code := binary.BigEndian.Uint16(payload); code {
	case 1004, 1005, 1006, 1015: // never on the wire
		return false
	default:
		return code >= 1000 && code <= 1014 || code >= 3000 && code <= 4999
	}
}
