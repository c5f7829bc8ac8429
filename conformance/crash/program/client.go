package program

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// requestLimit is how long a request may take until its outcome counts as unknown.
const requestLimit = 15 * time.Second

// Client is the administrator at a server, whichever process it is at the moment, or at several ones.
type Client struct {
	at        func() string // the URL of the server for the next request
	transport *http.Transport
}

// Protocol is the HTTP version of a client.
type Protocol int

// The protocols that the server supports.
const (
	HTTP1 Protocol = iota
	HTTP2
)

// Answer is what a request got. Code is 0 when there was no answer: then it is
// unknown whether the server did what it was asked.
type Answer struct {
	Code   int
	Body   []byte
	Err    error  // why there was no answer
	Unsent bool   // no connection could be made, so that nothing was asked
	At     string // the URL of the server that was asked
}

// Status is a Kubernetes Status, as far as it matters here.
type Status struct {
	Code    int
	Reason  string
	Message string
	Details struct{ UID string }
}

// Status reads the answer as one; what is no Status has no Reason.
func (a Answer) Status() Status {
	var s Status
	_ = json.Unmarshal(a.Body, &s) // an answer without a Status shows by its code
	return s
}

// String is for messages.
func (a Answer) String() string {
	if a.Code == 0 {
		return fmt.Sprintf("no answer: %v", a.Err)
	}
	return fmt.Sprintf("%d %s", a.Code, bytes.TrimSpace(a.Body[:min(len(a.Body), 600)]))
}

// Client makes a client with connections of its own. The server must have served.
func (s *Server) Client(p Protocol) (*Client, error) { return s.ClientAt(p, s.URL) }

// ClientAt is Client for servers with the certificates of this one. at says by which URL the next request
// goes.
func (s *Server) ClientAt(p Protocol, at func() string) (*Client, error) {
	issuer := s
	if s.cfg.Upstream != nil {
		issuer = s.cfg.Upstream
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(issuer.PKI(), "admin.crt"), filepath.Join(issuer.PKI(), "admin.key"))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(s.PKI(), "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the server's CA has no certificate")
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(p == HTTP1)
	protocols.SetHTTP2(p == HTTP2)
	return &Client{at: at, transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(4),
		},
		Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 256,
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Do sends one request, and never sends it again by itself: a transport repeats
// only what it has not sent.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, requestLimit, errors.New("no answer within the limit"))
	defer cancel()
	base := c.at()
	var connected atomic.Bool
	resp, err := c.send(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), base, method, path, body)
	if err != nil {
		return Answer{Err: err, Unsent: !connected.Load(), At: base}
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{Err: fmt.Errorf("read the answer: %w", err), At: base}
	}
	return Answer{Code: resp.StatusCode, Body: raw, At: base}
}

func (c *Client) send(ctx context.Context, base, method, path string, body []byte) (*http.Response, error) {
	var reader io.Reader // of a type that the transport cannot rewind: it does not repeat what it began to send
	if body != nil {
		reader = struct{ io.Reader }{bytes.NewReader(body)}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, reader)
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Accept", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	} else if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.transport.RoundTrip(req)
}

// Stream is a watch. Next and Close are called by one goroutine.
type Stream struct {
	At string // the URL of the server

	resp    *http.Response
	decoder *json.Decoder
	cancel  context.CancelFunc
}

// Event is one frame of a watch.
type Event struct {
	Type   string
	Object json.RawMessage
}

// Watch opens a watch. An answer other than 200 is returned, with no stream.
func (c *Client) Watch(ctx context.Context, path string) (*Stream, Answer) {
	ctx, cancel := context.WithCancel(ctx)
	base := c.at()
	resp, err := c.send(ctx, base, http.MethodGet, path, nil)
	if err != nil {
		cancel()
		return nil, Answer{Err: err, At: base}
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		cancel()
		return nil, Answer{Code: resp.StatusCode, Body: raw, Err: errors.Join(err, resp.Body.Close()), At: base}
	}
	return &Stream{At: base, resp: resp, decoder: json.NewDecoder(resp.Body), cancel: cancel},
		Answer{Code: resp.StatusCode, At: base}
}

// Next waits for the next event. An error ends the stream.
func (s *Stream) Next() (Event, error) {
	var e Event
	err := s.decoder.Decode(&e)
	return e, err
}

// Close ends the watch.
func (s *Stream) Close() {
	s.cancel()
	_ = s.resp.Body.Close() // what a watch had to say was read or is not wanted
}
