package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

// UnreachableError reports that an API server did not answer a request.
type UnreachableError struct {
	Host string
	// Sent is set if something of the request was sent, and the server may have taken it.
	Sent bool
	// Changes is set for a request that may change something: then clients must not repeat it if it
	// was sent.
	Changes bool
	Err     error
}

func (e *UnreachableError) Error() string {
	if e.Sent {
		return fmt.Sprintf("%s did not answer: %v", e.Host, e.Err)
	}
	return fmt.Sprintf("%s cannot be reached: %v", e.Host, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// BodyError reports that the body of a request could not be read from its client.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return fmt.Sprintf("read the body: %v", e.Err) }

// Unwrap returns the cause.
func (e *BodyError) Unwrap() error { return e.Err }

// Refusal returns the answer for a request that was not answered, on behalf of a program: 400 for a body
// that could not be read, and otherwise 503. Clients send a request again that is answered with
// Retry-After: a 503 has it unless the request may have been carried out, which it says then.
func Refusal(program string, err error) error {
	if body, is := errors.AsType[*BodyError](err); is {
		return wire.BadRequest("%v", body)
	}
	if away, is := errors.AsType[*UnreachableError](err); is && away.Sent && away.Changes {
		return wire.Unavailable(fmt.Sprintf("%s: the API server %v; the request may have been carried out", program, away), 0)
	}
	return wire.Unavailable(fmt.Sprintf("%s: the API server %v", program, err), time.Second)
}

// changes reports whether a request may change something. A connection that switches to another
// protocol is one of a command that runs, whatever the method.
func changes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.Header.Get("Upgrade") != ""
	}
	return true
}

// counted is a connection that counts what is written to it.
type counted struct {
	net.Conn

	writes atomic.Int64 // that have begun, without those that wrote nothing
}

// Write implements net.Conn.
func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1) // before: it may be seen at the other end before it returns
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// progress is how far a request has got.
type progress struct {
	on     atomic.Pointer[counted] // the connection; nil: there is none
	before atomic.Int64            // its writes before the request
}

// trace follows a request.
func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		on := got.Conn
		for { // through a proxy there may be TLS in TLS
			secured, is := on.(*tls.Conn)
			if !is {
				break
			}
			on = secured.NetConn()
		}
		conn, is := on.(*counted)
		if is {
			p.before.Store(conn.writes.Load())
		} else { // of something between, which is not known
			conn = &counted{}
			p.before.Store(-1)
		}
		p.on.Store(conn)
	}}
}

// connected reports whether there is, or was, a connection for the request.
func (p *progress) connected() bool { return p.on.Load() != nil }

// sent reports whether something of the request may have been sent. Over HTTP/2 that may have been
// something of another request on the same connection.
func (p *progress) sent() bool {
	conn := p.on.Load()
	return conn != nil && conn.writes.Load() != p.before.Load()
}
