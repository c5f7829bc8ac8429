package limit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// MaxBodyBytes is the largest body: apiserver config.go MaxRequestBodyBytes.
	MaxBodyBytes = 3 << 20
	// smallBody is the size up to which a body does not count as bytes under way.
	smallBody = 16 << 10
	// A body may take bodyGrace, and a second more for each bodyRate bytes: 3 MiB may take
	// 58 s, about as long as a whole request.
	bodyGrace = 10 * time.Second
	bodyRate  = 64 << 10
)

// received is a body that was read completely.
type received struct {
	io.Reader

	whole []byte
}

// Close implements io.Closer.
func (*received) Close() error { return nil }

// Received returns the body that Receive has read; nil if there is none.
func Received(r *http.Request) []byte {
	if b, is := r.Body.(*received); is {
		return b.whole
	}
	return nil
}

// Receive reads the whole body and replaces r.Body by it. The caller calls release when
// the request has ended. Errors: 413 if the body is over MaxBodyBytes, 408 if it arrives
// too slowly, 429 if its user has too many bytes under way.
func (l *Load) Receive(w http.ResponseWriter, r *http.Request, user string) (release func(), err error) {
	if r.ContentLength > MaxBodyBytes {
		return nil, wire.TooLargeBody(MaxBodyBytes)
	}
	size := r.ContentLength
	if size < 0 { // unknown
		size = MaxBodyBytes
	}
	release = func() {}
	if size > smallBody {
		if release, err = l.take(r.Context(), l.bodies, user, int(size)); err != nil {
			return nil, err
		}
	}
	whole, err := l.readWhole(w, r)
	if err != nil {
		release()
		return nil, err
	}
	r.Body = &received{bytes.NewReader(whole), whole}
	return release, nil
}

// readWhole reads a body, which must keep arriving.
func (l *Load) readWhole(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	in := &paced{Reader: r.Body, ctl: http.NewResponseController(w), began: time.Now()}
	last, ok := r.Context().Deadline()
	if !ok {
		last = in.began.Add(time.Hour)
	}
	in.last = last.Add(time.Second) // so that the request's deadline is answered, and not cut off
	// What is left of a body after an error must arrive by then. A request whose body is
	// whole gets no deadline: net/http goes on reading to notice a client that leaves, and
	// takes a missed deadline for one, for the connection's next requests too.
	until := in.last
	defer func() { _ = in.ctl.SetReadDeadline(until) }()
	buffer := bytes.NewBuffer(make([]byte, 0, max(0, min(r.ContentLength, smallBody))+bytes.MinRead))
	_, err := buffer.ReadFrom(io.LimitReader(in, MaxBodyBytes+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(r.Context().Err(), context.DeadlineExceeded):
		l.refusals.Add(SlowBody)
		w.Header().Set("Connection", "close")
		return nil, wire.RequestTimeout("the body came too slowly")
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		return nil, wire.BadRequest("read the body: %v", err)
	case buffer.Len() > MaxBodyBytes:
		return nil, wire.TooLargeBody(MaxBodyBytes)
	}
	until = time.Time{}
	return buffer.Bytes(), nil
}

// paced reads a body with a deadline that moves on with each byte, up to last.
type paced struct {
	io.Reader

	ctl   *http.ResponseController
	began time.Time
	last  time.Time
	got   int
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	deadline := p.began.Add(bodyGrace + time.Duration(p.got)*time.Second/bodyRate)
	if deadline.After(p.last) {
		deadline = p.last
	}
	_ = p.ctl.SetReadDeadline(deadline) // without support there is no limit
	n, err := p.Reader.Read(b)
	p.got += n
	return n, err
}

// CheckDepth refuses JSON that is nested too deep. It accepts a body that is not JSON:
// the decoder refuses that.
func (l *Load) CheckDepth(body []byte) error {
	if kinds.TooDeep(body) {
		l.refusals.Add(Depth)
		return wire.BadRequest("the body is nested more than %d levels deep", kinds.MaxDepth)
	}
	return nil
}
