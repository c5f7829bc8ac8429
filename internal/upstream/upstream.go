// Package upstream connects a reverse proxy with an API server.
//
// A [Server] is the API server, with the credentials that requests to it get. An
// [Exchange] is how a request passes to it, and the answer back. An [UnreachableError] says that it did
// not answer, and whether it may have done what was requested.
//
// repeatable.go says which requests a relay or a proxy sends again, unreachable.go which 503
// has a Retry-After.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/gapless-io/gapless/internal/tracing"
)

// Server is an API server. It is safe for concurrent use.
type Server struct {
	// URL is where it is; the path is a prefix of all paths.
	URL *url.URL
	// plain is for all requests but those to switch protocols, which need HTTP/1.1.
	plain, upgrade sender
	buffers        buffers
	kept           atomic.Int64 // bytes of bodies that can be sent again
}

// Open returns the server of a client configuration. It opens no connection. Requests get the
// credentials of cfg; with those of rest.AnonymousClientConfig, requests have only what they
// bring. A connection fails if it takes longer than within, and so does its TLS handshake.
func Open(cfg *rest.Config, within time.Duration) (*Server, error) {
	own := rest.CopyConfig(cfg)
	own.UserAgent = "" // who sends none has none: the server makes the field manager of it
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
	dialCounted := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &counted{Conn: conn}, nil
	}
	proxy := http.ProxyFromEnvironment
	if how.Proxy != nil {
		proxy = how.Proxy
	}
	s := sender{connections: &http.Transport{
		Proxy: proxy, TLSClientConfig: config, DisableCompression: true, // what the server compresses passes compressed
		ForceAttemptHTTP2: len(cfg.NextProtos) == 0,
		DialContext:       dialCounted, TLSHandshakeTimeout: within, IdleConnTimeout: 90 * time.Second,
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

// sendAgain is how many times a request of which nothing was sent is sent again, at once: the connection
// was closed while nobody used it. What HTTP/2 says was not taken, the transport sends again itself.
const sendAgain = 2

// RoundTrip implements http.RoundTripper. A request that the server certainly did not take is sent again,
// also one with a body, up to 3 MiB. Errors: *BodyError if the client did not send its body; otherwise
// *UnreachableError.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := tracing.Client(r.Context(), r.Method, s.URL.Host, r.Header) // the request is the proxy's own
	resp, err := s.send(r.WithContext(ctx))
	if resp != nil {
		span.Answered(resp.StatusCode)
	}
	span.End(err)
	return resp, err
}

// send is RoundTrip without a span.
func (s *Server) send(r *http.Request) (*http.Response, error) {
	var so progress
	out := r.WithContext(httptrace.WithClientTrace(r.Context(), so.trace()))
	hideKeys(out)
	by := s.plain
	if r.Header.Get("Upgrade") != "" {
		by = s.upgrade
	}
	var body *repeatable
	if out.Body != nil && out.Body != http.NoBody {
		body = s.repeat(out)
	}
	resp, err := by.RoundTrip(out)
	for again := 0; err != nil && again < sendAgain && so.connected() && !so.sent() && r.Context().Err() == nil; again++ {
		if body != nil {
			next, kept := body.again()
			if kept != nil {
				break
			}
			out.Body = next
		}
		resp, err = by.RoundTrip(out)
	}
	if body != nil {
		if early := body.end(err != nil); early != nil && err != nil {
			return nil, &BodyError{Err: early}
		}
	}
	if err != nil {
		return nil, &UnreachableError{
			Host: s.URL.Host, Sent: so.sent() && !errors.Is(err, errNotKept), Changes: changes(r), Err: err,
		}
	}
	return resp, nil
}

// hideKeys hides from net/http that a client has marked a request as one that can be repeated: then it
// would be sent again over HTTP/1.1 when the connection has broken, although an API server ignores the
// mark. The header is sent: net/http knows it only by its canonical name.
func hideKeys(r *http.Request) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		values, has := r.Header[name]
		if !has {
			continue
		}
		r.Header = r.Header.Clone()
		delete(r.Header, name)
		r.Header[strings.ToLower(name)] = values
	}
}
