// Package wire is an HTTP client that costs as little as it can, so that a server
// can be measured from the same machine: no header maps, no copies of bodies, no
// goroutines besides the caller's (HTTP/1.1) or one per connection (HTTP/2).
//
// A [Target] is the address of a server and the credentials. A [Conn] is exactly one
// connection to it. A [Request] is sent over it; its answer is written to an io.Writer piece
// by piece, as it arrives. A [Response] is its outcome. A [Loop] reads thousands of streams at
// once.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
)

// ErrStop is what a writer returns that has seen enough: the request ends there,
// without an error. Over HTTP/1.1 that costs the connection, over HTTP/2 a
// RST_STREAM.
var ErrStop = errors.New("enough")

// Protocol is a version of HTTP.
type Protocol int

// The protocols that are measured.
const (
	HTTP1 Protocol = iota // HTTP/1.1: one request at a time on a connection
	HTTP2                 // HTTP/2: many requests on a connection
)

// String names the protocol as people do.
func (p Protocol) String() string {
	if p == HTTP2 {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// Target is a server and what a client shows it.
type Target struct {
	Address string      // host:port
	TLS     *tls.Config // roots and, if the server wants them, client certificates
	Token   string      // bearer token; empty sends none
}

// Request is one request. The zero Method is GET.
type Request struct {
	Method string
	Path   string // path and query, escaped
	Type   string // Content-Type of Body; empty is application/json
	Accept string // media type of the answer; empty is application/json
	Body   []byte // HTTP/1.1 only
	Gzip   bool   // offer to take gzip; the body is returned compressed
	Opened func() // called when a 2xx header has arrived, before any of the body; may be nil
}

// Response is how a request went.
type Response struct {
	Status int
	Gzip   bool  // the body came compressed
	Bytes  int64 // of the body, as it came
}

// accept returns the media type that the request asks for.
func (r Request) accept() string {
	if r.Accept == "" {
		return "application/json"
	}
	return r.Accept
}

// Conn is one connection. Do blocks until the body of the answer has ended, or
// its writer returned an error. A status other than 2xx is a [*StatusError]; a
// body that was cut off is io.ErrUnexpectedEOF or the error of the connection.
// Close ends the requests that are under way. One goroutine may use an HTTP/1.1
// connection at a time, any number an HTTP/2 connection.
type Conn interface {
	Do(r Request, body io.Writer) (Response, error)
	Close()
	// Broken says that no further request can be sent.
	Broken() bool
}

// StatusError is an answer that refuses.
type StatusError struct {
	Status int
	Body   []byte // its beginning
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.Status, bytes.TrimSpace(e.Body))
}

// Dial opens one connection and completes the TLS handshake.
func (t Target) Dial(ctx context.Context, p Protocol) (Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	conn, err := t.handshake(ctx, raw, p)
	if err != nil {
		return nil, err
	}
	if p == HTTP2 {
		return newMultiplexed(conn, t)
	}
	return newSequential(conn, t), nil
}

// handshake makes TLS of a connection, which it closes if that fails.
func (t Target) handshake(ctx context.Context, raw net.Conn, p Protocol) (*tls.Conn, error) {
	cfg := t.TLS.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	if p == HTTP2 {
		cfg.NextProtos = []string{"h2"}
	}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(t.Address)
		if err != nil {
			return nil, fmt.Errorf("address: %w", err)
		}
		cfg.ServerName = host
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return conn, nil
}

// refusal collects the beginning of the body of an answer that refuses.
type refusal struct{ body []byte }

const refusalBytes = 2 << 10

func (r *refusal) Write(p []byte) (int, error) {
	r.body = append(r.body, p[:min(len(p), refusalBytes-len(r.body))]...)
	return len(p), nil
}
