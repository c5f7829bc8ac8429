package stream_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

// staying is a sink whose handler waits for its End.
type staying struct {
	stream.Sink

	left  func()
	ended chan struct{}
}

// End implements stream.Sink.
func (s *staying) End(e stream.Ending) {
	s.Sink.End(e)
	s.left()
	close(s.ended)
}

// pipeWriter is a ResponseWriter on a bare connection.
type pipeWriter struct {
	conn   net.Conn
	header http.Header
}

// Header implements http.ResponseWriter.
func (p *pipeWriter) Header() http.Header { return p.header }

// Write implements http.ResponseWriter; it writes no body.
func (p *pipeWriter) Write(b []byte) (int, error) { return p.conn.Write(b) }

// WriteHeader implements http.ResponseWriter.
func (p *pipeWriter) WriteHeader(code int) {
	_, _ = fmt.Fprintf(p.conn, "HTTP/1.1 %d x\r\n\r\n", code) // the test reads it
}

// Flush implements http.Flusher.
func (p *pipeWriter) Flush() {}

// Hijack implements http.Hijacker.
func (p *pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return p.conn, bufio.NewReadWriter(bufio.NewReader(p.conn), bufio.NewWriter(p.conn)), nil
}
