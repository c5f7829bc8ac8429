package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

var errGoAway = errors.New("the server said GOAWAY")

// raw is a connection of HTTP/2 that sends frames as it likes. One goroutine sends.
type raw struct {
	a    *Attacker
	conn *tls.Conn
	out  bytes.Buffer
	fr   *http2.Framer // writes to out, reads from conn
	enc  *hpack.Encoder
	head bytes.Buffer
	next uint32 // stream

	ended chan struct{}
	why   error // set before ended is closed
}

// http2 opens a connection and reads what the server says, until it ends.
func (a *Attacker) http2(ctx context.Context, by credential) (*raw, error) {
	conn, err := a.secure(ctx, by, "h2")
	if err != nil {
		return nil, err
	}
	r := &raw{a: a, conn: conn, next: 1, ended: make(chan struct{})}
	r.fr, r.enc = http2.NewFramer(&r.out, conn), hpack.NewEncoder(&r.head)
	r.out.WriteString(http2.ClientPreface)
	if err := r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24}); err != nil {
		return nil, err
	}
	go r.read() // ends with the connection
	return r, r.flush()
}

// flush sends the frames that were written.
func (r *raw) flush() error {
	_, err := r.out.WriteTo(r.conn)
	if err == nil {
		return nil
	}
	<-r.ended // the reader knows more
	return r.why
}

func (r *raw) close() {
	_ = r.conn.Close()
	<-r.ended
}

// read counts what the server answers.
func (r *raw) read() {
	defer close(r.ended)
	fr := http2.NewFramer(io.Discard, r.conn)
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			r.a.count(f.Value)
		}
	})
	goAway := false
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			r.why = err
			if goAway {
				r.why = errGoAway
			}
			return
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			_, _ = dec.Write(f.HeaderBlockFragment()) // what it cannot read is not counted
		case *http2.GoAwayFrame:
			goAway = true
			r.a.count("GOAWAY " + f.ErrCode.String())
		}
	}
}

// get writes a request without a body.
func (r *raw) get(path string) (stream uint32, err error) {
	stream = r.next
	r.next += 2
	return stream, r.fr.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: r.headers("GET", path), EndStream: true, EndHeaders: true,
	})
}

func (r *raw) headers(method, path string) []byte {
	r.head.Reset()
	for _, f := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "x"}, {":path", path}} {
		if err := r.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			panic(fmt.Sprintf("a buffer does not fail: %v", err))
		}
	}
	return r.head.Bytes()
}
