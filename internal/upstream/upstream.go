// Package upstream connects a reverse proxy with an API server.
//
// It has three nouns. A [Server] is the API server, with the credentials that requests to it get. An
// [Exchange] is how a request passes to it, and the answer back. An [UnreachableError] says that it did
// not answer.
package upstream

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Server is an API server. It is safe for concurrent use.
type Server struct {
	// URL is where it is; the path is a prefix of all paths.
	URL *url.URL
	// plain is for all requests but those to switch protocols, which need HTTP/1.1.
	plain, upgrade sender
	buffers        buffers
}

// Open returns the server of a client configuration. It opens no connection. Requests get the
// credentials of cfg; with those of rest.AnonymousClientConfig, requests have only what they
// bring. A connection fails if it takes longer than within, and so does its TLS handshake.
func Open(cfg *rest.Config, within time.Duration) (*Server, error) {
	own := rest.CopyConfig(cfg)
	s := &Server{}
	var err error
	if s.URL, _, err = rest.DefaultServerUrlFor(own); err != nil {
		return nil, fmt.Errorf("the server of the configuration: %w", err)
	}
	if s.plain, err = newSender(own, within); err != nil {
		return nil, err
	}
	own.NextProtos = []string{"http/1.1"}
	s.upgrade, err = newSender(own, within)
	return s, err
}

// sender sends requests over connections of its own.
type sender struct {
	http.RoundTripper // with the credentials

	connections *http.Transport
}

// newSender returns a sender for cfg. It is not rest.TransportFor, whose connections have bounds
// that cannot be set, and are shared with clients.
func newSender(cfg *rest.Config, within time.Duration) (sender, error) {
	how, err := cfg.TransportConfig()
	if err != nil {
		return sender{}, fmt.Errorf("the credentials of the configuration: %w", err)
	}
	config, err := transport.TLSConfigFor(how)
	if err != nil {
		return sender{}, fmt.Errorf("the certificates of the configuration: %w", err)
	}
	dial := (&net.Dialer{Timeout: within}).DialContext
	if how.DialHolder != nil {
		dial = how.DialHolder.Dial
	}
	proxy := http.ProxyFromEnvironment
	if how.Proxy != nil {
		proxy = how.Proxy
	}
	s := sender{connections: &http.Transport{
		Proxy: proxy, TLSClientConfig: config, DisableCompression: true, // what the server compresses passes compressed
		ForceAttemptHTTP2: len(cfg.NextProtos) == 0,
		DialContext:       dial, TLSHandshakeTimeout: within, IdleConnTimeout: 90 * time.Second,
		MaxIdleConnsPerHost: 25, // client-go transport/cache.go
		// A client's body is not read before the server wants it, if the client said so.
		ExpectContinueTimeout: time.Second, // http.DefaultTransport
		// A server that is gone silently is noticed, as by client-go.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}}
	s.RoundTripper, err = transport.HTTPWrappersForConfig(how, s.connections)
	if err != nil {
		return sender{}, fmt.Errorf("the credentials of the configuration: %w", err)
	}
	return s, nil
}

// CloseIdle closes the connections that no request uses.
func (s *Server) CloseIdle() {
	s.plain.connections.CloseIdleConnections()
	s.upgrade.connections.CloseIdleConnections()
}

// UnreachableError reports that an API server did not answer a request.
type UnreachableError struct {
	Host string
	// Sent is set if there was a connection: the server may have done what was requested.
	Sent bool
	Err  error
}

func (e *UnreachableError) Error() string {
	if e.Sent {
		return fmt.Sprintf("%s did not answer: %v", e.Host, e.Err)
	}
	return fmt.Sprintf("%s cannot be reached: %v", e.Host, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RoundTrip implements http.RoundTripper. Errors: *UnreachableError.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	by := s.plain
	if r.Header.Get("Upgrade") != "" {
		by = s.upgrade
	}
	resp, err := by.RoundTrip(r.WithContext(traced))
	if err != nil {
		return nil, &UnreachableError{Host: s.URL.Host, Sent: connected.Load(), Err: err}
	}
	return resp, nil
}
