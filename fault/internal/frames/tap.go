package frames

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Body is what the bytes of an answer go through.
type Body interface {
	// Open is called when the header was sent, before the first Write. What is written to
	// to is sent at once.
	Open(to io.Writer, header http.Header, code int)
	// Write gets what the server sends. A write of nothing is a flush.
	Write(p []byte) (int, error)
}

// New returns a ResponseWriter for the answer to r, which goes through a body. taken is called
// with the connection of a request to switch protocols when it is taken over; it closes it at
// once.
func New(w http.ResponseWriter, r *http.Request, through Body, taken func(cut func())) http.ResponseWriter {
	t := Tap{ResponseWriter: w, body: through}
	if IsUpgrade(r) {
		return &upgradeTap{t, taken}
	}
	return &t
}

// Tap is a ResponseWriter whose body goes through another. It has no Hijack and no Unwrap,
// by which a server could write past it: gapless takes connections of watches over from
// net/http.
type Tap struct {
	http.ResponseWriter

	body Body
	code int
}

// WriteHeader implements http.ResponseWriter.
func (t *Tap) WriteHeader(code int) {
	if t.code != 0 {
		return
	}
	if code < http.StatusOK && code != http.StatusSwitchingProtocols {
		t.ResponseWriter.WriteHeader(code)
		return
	}
	t.code = code
	if code == http.StatusOK {
		t.Header().Del("Content-Length") // of a body that may change
	}
	t.ResponseWriter.WriteHeader(code)
	if code != http.StatusSwitchingProtocols {
		t.body.Open(flushing{t.ResponseWriter}, t.Header(), code)
	}
}

// Write implements http.ResponseWriter.
func (t *Tap) Write(p []byte) (int, error) {
	if t.code == 0 {
		t.WriteHeader(http.StatusOK)
	}
	return t.body.Write(p)
}

// FlushError is for http.ResponseController. What the body writes is flushed already, and it may
// be writing just now; only a header can wait.
func (t *Tap) FlushError() error {
	_, err := t.Write(nil)
	return err
}

// SetReadDeadline is for http.ResponseController.
func (t *Tap) SetReadDeadline(at time.Time) error {
	return http.NewResponseController(t.ResponseWriter).SetReadDeadline(at)
}

// SetWriteDeadline is for http.ResponseController.
func (t *Tap) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(t.ResponseWriter).SetWriteDeadline(at)
}

// flushing sends what is written at once.
type flushing struct{ w http.ResponseWriter }

// Write implements io.Writer.
func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = http.NewResponseController(f.w).Flush()
	}
	return n, err
}

// upgradeTap is the tap of a request to switch protocols: its connection can be taken over,
// and what is written to it goes through the body.
type upgradeTap struct {
	Tap

	taken func(cut func())
}

// Hijack implements http.Hijacker.
func (t *upgradeTap) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	inner, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.taken(func() { closeNow(inner) })
	out := &tapped{Conn: inner, body: t.body}
	if t.code == http.StatusSwitchingProtocols {
		t.body.Open(inner, t.Header(), t.code)
		return out, bufio.NewReadWriter(buffered.Reader, bufio.NewWriter(out)), nil
	}
	// A proxy takes the connection over first, and writes the header there.
	header := &afterHeader{to: inner, then: func() { t.body.Open(inner, t.Header(), http.StatusSwitchingProtocols) }}
	return out, bufio.NewReadWriter(buffered.Reader, bufio.NewWriter(header)), nil
}

// closeNow closes a connection without the alert of TLS, which a client that does not read
// would delay.
func closeNow(c net.Conn) {
	if secure, is := c.(interface{ NetConn() net.Conn }); is {
		c = secure.NetConn()
	}
	_ = c.Close() // it may be closed
}

// tapped is a connection whose written bytes go through a body.
type tapped struct {
	net.Conn

	body Body
}

// Write implements net.Conn.
func (t *tapped) Write(p []byte) (int, error) { return t.body.Write(p) }

// afterHeader calls then when the header of an answer was written.
type afterHeader struct {
	to   io.Writer
	then func()
	seen []byte
}

// Write implements io.Writer.
func (a *afterHeader) Write(p []byte) (int, error) {
	n, err := a.to.Write(p)
	if a.then != nil {
		if a.seen = append(a.seen, p[:n]...); bytes.Contains(a.seen, []byte("\r\n\r\n")) {
			a.then()
			a.then, a.seen = nil, nil
		}
	}
	return n, err
}

// IsUpgrade reports whether a request asks to switch protocols.
func IsUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") &&
		r.Header.Get("Upgrade") != ""
}
