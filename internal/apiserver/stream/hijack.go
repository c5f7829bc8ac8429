package stream

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"
)

// unexpectedBytes is how much a client may send on a connection that is a watch
// before the watch ends: nothing is expected but the end.
const unexpectedBytes = 64 << 10

// goodbye is how long a client may take to answer the end of the stream.
const goodbye = time.Second

// hijacked is a body in chunks on a connection of HTTP/1.1 that was taken over from
// net/http.
type hijacked struct {
	gather

	conn net.Conn
	gone chan struct{} // closed when listen has ended
}

// CanHijack reports whether Hijack can take over the request's connection.
func CanHijack(w http.ResponseWriter, r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.ContentLength != 0 {
		return false
	}
	for {
		switch on := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = on.Unwrap()
		default:
			return false
		}
	}
}

// Hijack sends the header, which must be complete, with status 200, takes over the
// connection, and returns the sink that writes the body; zip compresses it.
// The handler may return immediately: then only the connection remains of the
// request. left is called, from a goroutine that ends with the connection, when
// the client leaves. The connection ends with the stream, as the header says.
func Hijack(w http.ResponseWriter, zip bool, left func()) (Sink, error) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusOK)
	ctl := http.NewResponseController(w)
	if err := ctl.Flush(); err != nil {
		return nil, err
	}
	conn, _, err := ctl.Hijack()
	if err != nil {
		return nil, err
	}
	BoundUnsent(conn)
	s := &hijacked{conn: conn, gone: make(chan struct{})}
	s.send = s.write
	if zip {
		s.zip = &zipped{}
	}
	go s.listen(left) // ends when the client leaves, or with End
	return s, nil
}

// listen waits until the client closes the connection.
func (s *hijacked) listen(left func()) {
	defer close(s.gone)
	defer left()
	var ignored [256]byte
	for total := 0; total < unexpectedBytes; {
		n, err := s.conn.Read(ignored[:])
		if err != nil {
			return
		}
		total += n
	}
}

// write sends a piece as one chunk; nil is the last one.
func (s *hijacked) write(piece []byte) error {
	if piece == nil {
		_, err := s.conn.Write([]byte("0\r\n\r\n"))
		return err
	}
	var hex [before]byte
	size := append(strconv.AppendInt(hex[:0], int64(len(piece)-before), 16), '\r', '\n')
	from := before - len(size)
	copy(piece[from:], size)
	_, err := s.conn.Write(append(piece[from:], '\r', '\n'))
	return err
}

// Limit implements Sink.
func (s *hijacked) Limit(t time.Time) { _ = s.conn.SetWriteDeadline(t) } // a closed connection needs none

// Gone implements Sink.
func (s *hijacked) Gone() <-chan struct{} { return s.gone }

// End implements Sink.
func (s *hijacked) End(e Ending) {
	if e != Broken && s.finish() == nil && s.write(nil) == nil {
		hangUp(s.conn)
	} else {
		cut(s.conn)
	}
	<-s.gone
}

// hangUp closes a connection whose client reads. TLS sends a close alert first, and
// would wait 5 s for a client that has just stopped reading.
func hangUp(conn net.Conn) {
	late := time.AfterFunc(goodbye, func() { cut(conn) })
	defer late.Stop()
	_ = conn.Close() // it may be closed
}

// cut closes a connection without a TLS alert.
func cut(conn net.Conn) {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	_ = conn.Close() // it may be closed
}
