// Package client lists, watches and discovers the resources of any Kubernetes API
// server over HTTP.
//
// A [Client] sends requests to one server. A [Form] is the encoding that it asks for: JSON, or
// Kubernetes' protobuf encoding if the server supports it. An [Envelope] is an object in
// protobuf. A [Collection] is what is listed and watched: the objects of one resource, in one
// namespace or in all. A [Watch] is an open stream of [Frame] values. A [Resource] describes a
// type, from discovery.
//
// The client does not retry and does not wait before a request: each call is one request
// (discovery of old servers: one per group). Every failure is returned as an error that
// kube.Classify understands; kube.RetryDelay returns the Retry-After of the answer.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const typeJSON = "application/json"

// Client sends requests to one API server. It is safe for concurrent use and starts no
// goroutines besides those of net/http.
type Client struct {
	http     *http.Client
	base     *url.URL
	timeout  time.Duration // of everything but a watch; 0: none
	compress bool
	form     Form
}

// New returns a client for cfg, as clientcmd or rest.InClusterConfig return it. It does
// not change cfg and opens no connection. It uses the TLS, credentials, dialer, proxy,
// wrappers and Timeout of cfg, and ignores QPS and Burst. Timeout does not apply to a
// watch.
func New(cfg *rest.Config) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("make a client: no configuration")
	}
	own := rest.CopyConfig(cfg)
	own.Timeout = 0
	if own.UserAgent == "" {
		own.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for %q: %w", cfg.Host, err)
	}
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", base.Host, err)
	}
	return &Client{http: httpClient, base: base, timeout: cfg.Timeout, compress: !cfg.DisableCompression}, nil
}

// Through returns a copy of c that sends its requests through wrap(c's transport). They
// share their connections.
func (c *Client) Through(wrap func(http.RoundTripper) http.RoundTripper) *Client {
	wrapped, inner := *c, *c.http
	if inner.Transport == nil {
		inner.Transport = http.DefaultTransport
	}
	inner.Transport = wrap(inner.Transport)
	wrapped.http = &inner
	return &wrapped
}

// CloseIdle closes the connections that no request uses. Clients of equal
// configurations share their connections, so call it only at the end of a program or of
// a test.
func (c *Client) CloseIdle() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Request is one request; its path is relative to the server's URL.
type Request struct {
	Method string     // "" is GET
	Path   string     // "/api/v1/namespaces/default/pods/web"
	Query  url.Values // nil: none
	Accept string     // "" is JSON
	// ContentType belongs to Body; "" is JSON.
	ContentType string
	Body        []byte // nil: none
}

// Do sends one request and returns the answer, whose body the caller must close. ctx
// cancels the request and the reading of the body. For every answer that is not 2xx it
// returns an error that kube.Classify understands: an *errors.StatusError of apimachinery
// with the server's Status, or one made from the HTTP status.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.send(req)
}

// Get reads a small answer completely, for at most cfg.Timeout. It refuses more
// than 64 MiB.
func (c *Client) Get(ctx context.Context, path, accept string) ([]byte, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	resp, err := c.Do(ctx, Request{Path: path, Accept: accept})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	const most = 64 << 20 // far above every discovery document
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(body) > most {
		return nil, fmt.Errorf("read %s: the answer is larger than %d bytes", path, most)
	}
	return body, nil
}

func (c *Client) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

func (c *Client) request(ctx context.Context, r Request) (*http.Request, error) {
	target := *c.base
	// The path may have escaped parts (a name with a slash), so both forms are kept.
	path, err := url.PathUnescape(r.Path)
	if err != nil {
		return nil, fmt.Errorf("make a request for %q: %w", r.Path, err)
	}
	target.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + r.Path
	target.Path = strings.TrimSuffix(c.base.Path, "/") + path
	target.RawQuery = r.Query.Encode()
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make a request for %q: %w", r.Path, err)
	}
	req.Header.Set("Accept", or(r.Accept, typeJSON))
	if r.Body != nil {
		req.Header.Set("Content-Type", or(r.ContentType, typeJSON))
	}
	return req, nil
}

func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, causeOf(req.Context(), err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp, nil
}

// causeOf puts the reason for which ctx was cancelled in the place of "context
// canceled".
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
