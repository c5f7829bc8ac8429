package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Types, flags and codes of HTTP/2: RFC 9113.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway, frameWindow = 0, 1, 3, 4, 7, 8

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4

	codeNo, codeRefusedStream = 0, 7
)

// framed is a connection of HTTP/2 whose server a test plays.
type framed struct {
	conn net.Conn
	from *bufio.Reader
}

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// write sends a frame; a client that is gone does not matter.
func (c *framed) write(f frame) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))<<8|uint32(f.kind)) //nolint:gosec // a test's frames are short
	head = binary.BigEndian.AppendUint32(append(head, f.flags), f.stream)
	_, _ = c.conn.Write(append(head, f.payload...))
}

func (c *framed) read() (frame, error) {
	head := make([]byte, 9)
	if _, err := io.ReadFull(c.from, head); err != nil {
		return frame{}, err
	}
	f := frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	f.payload = make([]byte, binary.BigEndian.Uint32(head)>>8)
	_, err := io.ReadFull(c.from, f.payload)
	return f, err
}

// goAway says that the server has taken the streams up to last.
func (c *framed) goAway(last, code uint32) {
	c.write(frame{kind: frameGoAway, payload: binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code)})
}

// reset ends a stream with a code.
func (c *framed) reset(stream, code uint32) {
	c.write(frame{kind: frameReset, stream: stream, payload: binary.BigEndian.AppendUint32(nil, code)})
}

// answer is 200 without a body.
func (c *framed) answer(stream uint32) {
	c.write(frame{kind: frameHeaders, flags: flagEndStream | flagEndHeaders, stream: stream, payload: []byte{0x88}})
}

// request reads frames until all of a request has come, and returns its stream and body. part, if not nil,
// is called after each frame of it, and reports whether to go on.
func (c *framed) request(part func(stream uint32) bool) (stream uint32, body []byte, err error) {
	for {
		f, err := c.read()
		if err != nil {
			return stream, body, err
		}
		switch f.kind {
		case frameSettings:
			if f.flags&flagAck == 0 {
				c.write(frame{kind: frameSettings, flags: flagAck})
			}
			continue
		case frameHeaders:
			stream = f.stream
		case frameData:
			body = append(body, f.payload...)
		default:
			continue
		}
		if part != nil && !part(stream) || f.flags&flagEndStream != 0 {
			return stream, body, nil
		}
	}
}

// play starts a server whose connections are played, each by play, and returns the configuration of a client.
func play(t *testing.T, play func(n int, c *framed)) *rest.Config {
	t.Helper()
	probe := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: probe.TLS.Certificates, NextProtos: []string{"h2"}}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: probe.Certificate().Raw})
	probe.Close()
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	listener := tls.NewListener(inner, config)
	ending, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { // ends with the listener
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { // ends with the client, or the test
				// The client of a test that ends may not have noticed yet that its connection is idle, and
				// keeps it then until it misses the answer to a PING.
				defer context.AfterFunc(ending, func() { _ = conn.Close() })()
				defer func() { _ = conn.Close() }()
				c := &framed{conn: conn, from: bufio.NewReader(conn)}
				if _, err := io.ReadFull(c.from, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
					return
				}
				// SETTINGS_INITIAL_WINDOW_SIZE and the window of the connection: large bodies come at once.
				c.write(frame{kind: frameSettings, payload: []byte{0, 4, 0x40, 0, 0, 0}})
				c.write(frame{kind: frameWindow, payload: []byte{0x40, 0, 0, 0}})
				play(n, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		end()
		running.Wait()
	})
	return &rest.Config{Host: "https://" + inner.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}
