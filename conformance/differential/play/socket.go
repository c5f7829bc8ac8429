package play

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xA
)

// dial makes the handshake of a WebSocket with the headers of a request and no
// others than it must, and starts to read it.
func (p *player) dial(ctx context.Context, req *http.Request, s *stream) *Answer {
	dialer := tls.Dialer{Config: p.target.TLS}
	conn, err := dialer.DialContext(ctx, "tcp", req.URL.Host)
	if err != nil {
		return &Answer{Failed: err, Took: time.Since(s.opened)}
	}
	leave := s.leave
	s.leave = func() {
		leave()
		_ = conn.Close() // which is leaving
	}
	resp, in, err := handshake(conn, req) //nolint:bodyclose // it has none, or is read to its end
	a := &Answer{Failed: err, Took: time.Since(s.opened)}
	if err != nil {
		_ = conn.Close() // the error is what there is to say
		return a
	}
	a.Code, a.Header = resp.StatusCode, resp.Header
	if resp.StatusCode != http.StatusSwitchingProtocols {
		a.Body, a.Failed = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		_ = conn.Close() // it was read
		return a
	}
	var mu sync.Mutex // one frame at a time
	s.send = func(opcode byte, payload []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return writeFrame(conn, opcode, payload)
	}
	// It ends with the connection, which leave closes.
	go s.readSocket(conn, in)
	return a
}

func handshake(conn net.Conn, req *http.Request) (*http.Response, *bufio.Reader, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return nil, nil, err
	}
	var head []byte
	head = fmt.Appendf(head, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", req.URL.Opaque,
		req.URL.Host)
	head = fmt.Appendf(head, "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n", base64.StdEncoding.EncodeToString(key))
	for name, values := range req.Header {
		for _, value := range values {
			head = fmt.Appendf(head, "%s: %s\r\n", name, value)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
		return nil, nil, err
	}
	if _, err := conn.Write(append(head, "\r\n"...)); err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, nil, err
	}
	return resp, in, conn.SetReadDeadline(time.Time{})
}

// readSocket reads frames until the connection ends.
func (s *stream) readSocket(conn net.Conn, in io.Reader) {
	defer func() { _ = conn.Close() }() // nothing more is read
	var message []byte
	for {
		final, opcode, payload, err := readFrame(in)
		if err != nil {
			s.end("cut")
			return
		}
		switch opcode {
		case opClose:
			code := "close without a code"
			if len(payload) >= 2 {
				code = fmt.Sprintf("close %d", binary.BigEndian.Uint16(payload))
			}
			s.end(code)
			return
		case opPing:
			_ = s.send(opPong, payload) // the next read says if it is gone
		case opPong:
			s.change(func() { s.pongs++ })
		default:
			if message = append(message, payload...); final {
				s.frame(append([]byte(opcodePrefix(opcode)), message...))
				message = nil
			}
		}
	}
}

// opcodePrefix marks messages that are not text, which no server should send.
func opcodePrefix(opcode byte) string {
	if opcode == opText || opcode == 0 {
		return ""
	}
	return fmt.Sprintf("opcode %d: ", opcode)
}

func readFrame(in io.Reader) (final bool, opcode byte, payload []byte, err error) { //nolint:revive // a frame is that much
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return false, 0, nil, err
	}
	length := uint64(head[1] & 0x7f)
	switch length {
	case 126:
		var n [2]byte
		_, err = io.ReadFull(in, n[:])
		length = uint64(binary.BigEndian.Uint16(n[:]))
	case 127:
		var n [8]byte
		_, err = io.ReadFull(in, n[:])
		length = binary.BigEndian.Uint64(n[:])
	}
	switch {
	case err != nil:
		return false, 0, nil, err
	case head[1]&0x80 != 0:
		return false, 0, nil, fmt.Errorf("a masked frame from the server")
	case length > 16<<20:
		return false, 0, nil, fmt.Errorf("a frame of %d bytes", length)
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(in, payload)
	return head[0]&0x80 != 0, head[0] & 0x0f, payload, err
}

// writeFrame writes a final frame, masked as clients must (RFC 6455, 5.3).
func writeFrame(out io.Writer, opcode byte, payload []byte) error {
	if len(payload) > 125 {
		return fmt.Errorf("a control frame of %d bytes", len(payload))
	}
	var mask [4]byte
	if _, err := rand.Read(mask[:]); err != nil {
		return err
	}
	frame := append([]byte{0x80 | opcode, 0x80 | byte(len(payload))}, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	_, err := out.Write(frame)
	return err
}

// ping sends one and waits for the answer.
func (p *player) ping(ctx context.Context, s *stream, r *Result) {
	if s.send == nil {
		r.Said = "not a WebSocket"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	s.mu.Lock()
	before := s.pongs
	s.mu.Unlock()
	r.Said = "no pong"
	if err := s.send(opPing, []byte("there?")); err == nil && s.next(ctx, r, func() bool { return s.pongs > before }) {
		r.Said = "pong"
	}
}
