package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Windows of flow control. The first two are those of Go's own client
// (x/net/http2/transport.go: transportDefaultStreamFlow, transportDefaultConnFlow),
// so that a server meets what client-go gives it.
const (
	streamWindow = 4 << 20
	connWindow   = 1 << 30
	streamReturn = 256 << 10 // bytes of a stream that are given back at once
	connReturn   = 16 << 20
)

// multiplexed is an HTTP/2 connection. One goroutine reads it and hands
// the bodies on.
type multiplexed struct {
	conn   *tls.Conn
	target Target
	joined sync.WaitGroup

	// sending guards the writing side.
	sending sync.Mutex
	out     *bufio.Writer
	frames  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	nextID  uint32

	// mu guards the streams. It may be taken while sending is held.
	mu      sync.Mutex
	streams map[uint32]*stream
	ended   error

	owed int64 // bytes of the connection not given back yet; the reader's
}

// stream is a request under way. Everything but done belongs to the reader.
type stream struct {
	id      uint32
	body    io.Writer
	opened  func()
	refused *refusal
	resp    Response
	owed    int
	done    chan error // gets one error, or nil
}

func newMultiplexed(conn *tls.Conn, t Target) (*multiplexed, error) {
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		_ = conn.NetConn().Close() // it is of no use
		return nil, fmt.Errorf("the server chose %q instead of HTTP/2", got)
	}
	c := &multiplexed{conn: conn, target: t, nextID: 1, streams: map[uint32]*stream{}, out: bufio.NewWriterSize(conn, 4<<10)}
	c.encoder = hpack.NewEncoder(&c.block)
	c.frames = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 2*readBytes))
	c.frames.SetReuseFrames()
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	if err := c.write(func() error {
		if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
			return err
		}
		if err := c.frames.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		); err != nil {
			return err
		}
		return c.frames.WriteWindowUpdate(0, connWindow)
	}); err != nil {
		_ = conn.NetConn().Close() // the error of writing says more
		return nil, err
	}
	c.joined.Go(c.read) // ends with the connection; Close waits for it
	return c, nil
}

func (c *multiplexed) Close() {
	_ = c.conn.NetConn().Close() // it is given up
	c.joined.Wait()
}

func (c *multiplexed) Broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil
}

// write sends what fn writes, at once.
func (c *multiplexed) write(fn func() error) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := fn(); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

func (c *multiplexed) Do(r Request, body io.Writer) (Response, error) {
	if r.Body != nil {
		return Response{}, errors.New("requests with a body go over HTTP/1.1")
	}
	s := &stream{body: body, opened: r.Opened, done: make(chan error, 1)}
	if err := c.write(func() error { return c.start(s, r) }); err != nil {
		return Response{}, err
	}
	err := <-s.done
	return s.resp, err
}

// start registers the stream and writes its header.
func (c *multiplexed) start(s *stream, r Request) error {
	c.block.Reset()
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: method},
		{Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: c.target.Address},
		{Name: ":path", Value: r.Path},
		{Name: "accept", Value: r.accept()},
	}
	if c.target.Token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + c.target.Token})
	}
	if r.Gzip {
		fields = append(fields, hpack.HeaderField{Name: "accept-encoding", Value: "gzip"})
	}
	for _, f := range fields {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	s.id = c.nextID
	c.nextID += 2
	c.mu.Lock()
	err := c.ended
	if err == nil {
		c.streams[s.id] = s
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.frames.WriteHeaders(http2.HeadersFrameParam{
		StreamID: s.id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true,
	})
}

// read hands on what arrives until the connection ends.
func (c *multiplexed) read() {
	var err error
	for err == nil {
		var f http2.Frame
		if f, err = c.frames.ReadFrame(); err == nil {
			err = c.handle(f)
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	_ = c.conn.NetConn().Close() // waiting requests return err
	c.mu.Lock()
	c.ended = err
	left := c.streams
	c.streams = nil
	c.mu.Unlock()
	for _, s := range left {
		s.done <- err
	}
}

func (c *multiplexed) handle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.MetaHeadersFrame:
		s := c.stream(f.StreamID)
		if s == nil {
			return nil
		}
		s.header(f)
		if f.StreamEnded() {
			c.finish(s, nil)
		}
	case *http2.RSTStreamFrame:
		if s := c.stream(f.StreamID); s != nil {
			c.finish(s, fmt.Errorf("the server reset the stream: %v", f.ErrCode))
		}
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.write(c.frames.WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.write(func() error { return c.frames.WritePing(true, f.Data) })
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server said goodbye: %v: %w", f.ErrCode, net.ErrClosed)
	}
	return nil
}

func (c *multiplexed) stream(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

func (s *stream) header(f *http2.MetaHeadersFrame) {
	for _, h := range f.Fields {
		switch h.Name {
		case ":status":
			for _, digit := range h.Value {
				s.resp.Status = s.resp.Status*10 + int(digit-'0')
			}
		case "content-encoding":
			s.resp.Gzip = h.Value == "gzip"
		}
	}
	if s.resp.Status/100 != 2 {
		s.refused = &refusal{}
		s.body = s.refused
	} else if s.opened != nil {
		s.opened()
	}
}

func (c *multiplexed) data(f *http2.DataFrame) error {
	n := int(f.Length)
	c.owed += int64(n)
	s := c.stream(f.StreamID)
	if s != nil {
		s.resp.Bytes += int64(len(f.Data()))
		s.owed += n
		_, err := s.body.Write(f.Data())
		switch {
		case err != nil:
			c.finish(s, err)
			if !f.StreamEnded() {
				if err := c.write(func() error { return c.frames.WriteRSTStream(s.id, http2.ErrCodeCancel) }); err != nil {
					return err
				}
			}
		case f.StreamEnded():
			c.finish(s, nil)
		case s.owed >= streamReturn:
			give := uint32(s.owed)
			s.owed = 0
			if err := c.write(func() error { return c.frames.WriteWindowUpdate(s.id, give) }); err != nil {
				return err
			}
		}
	}
	if c.owed >= connReturn {
		give := uint32(c.owed)
		c.owed = 0
		return c.write(func() error { return c.frames.WriteWindowUpdate(0, give) })
	}
	return nil
}

// finish tells the caller that its request has ended.
func (c *multiplexed) finish(s *stream, err error) {
	c.mu.Lock()
	delete(c.streams, s.id)
	c.mu.Unlock()
	if errors.Is(err, ErrStop) {
		err = nil
	}
	if err == nil && s.refused != nil {
		err = &StatusError{Status: s.resp.Status, Body: s.refused.body}
	}
	s.done <- err
}
