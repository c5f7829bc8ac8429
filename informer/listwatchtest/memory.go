package listwatchtest

import (
	"context"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
)

// Config returns a configuration whose transport calls a handler without a socket, so that
// it works in virtual time. If the handler panics with http.ErrAbortHandler, the connection
// is cut, or refused if nothing was written yet.
func Config(h http.Handler) *rest.Config {
	return &rest.Config{Host: "http://memory", Transport: transport{h}}
}

// Wire reads a handler with this module's client, over an in-memory transport. Unlike a
// [View] it includes the encoding. It has the methods of an informer.Backend, except for
// the result type of Watch.
type Wire struct{ client *client.Client }

// Over returns a Wire that reads a handler.
func Over(h http.Handler) Wire {
	c, err := client.New(Config(h))
	if err != nil {
		panic(err)
	}
	return Wire{c}
}

func things() client.Collection {
	return client.Collection{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}}
}

// List requests one page.
func (w Wire) List(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error) {
	return w.client.List(ctx, things(), o, each)
}

// Watch opens a watch, which ends with ctx.
func (w Wire) Watch(ctx context.Context, o metav1.ListOptions) (*client.Watch, error) {
	return w.client.Watch(ctx, things(), o)
}

type transport struct{ http.Handler }

// RoundTrip calls the handler with one request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	w := &writer{header: http.Header{}, body: out, begun: make(chan int, 1)}
	context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	// The goroutine ends with the handler, whose request ends with ctx.
	go func() {
		defer func() {
			switch v := recover(); v {
			case nil:
				w.WriteHeader(http.StatusOK)
				_ = out.Close() // a pipe has no error to return
			case http.ErrAbortHandler:
				w.abort()
			default:
				panic(v)
			}
		}()
		t.ServeHTTP(w, r.WithContext(ctx))
	}()
	select {
	case code := <-w.begun:
		if code == 0 {
			cancel()
			if err := context.Cause(r.Context()); err != nil {
				return nil, err
			}
			return nil, ErrRefused
		}
		return &http.Response{
			StatusCode: code, Header: w.header, Request: r, ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: body{in, cancel},
		}, nil
	case <-r.Context().Done():
		cancel()
		return nil, context.Cause(r.Context())
	}
}

type body struct {
	*io.PipeReader
	cancel func()
}

// Close ends the request.
func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// writer is the http.ResponseWriter of a transport.
type writer struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan int // the status; 0: the connection is refused
	once   sync.Once
}

// Header is sent with the status.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader begins the answer, once.
func (w *writer) WriteHeader(code int) {
	w.once.Do(func() { w.begun <- code })
}

// Write writes to the client.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// FlushError begins the answer.
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}

func (w *writer) abort() {
	w.once.Do(func() { w.begun <- 0 })
	w.body.CloseWithError(io.ErrUnexpectedEOF)
}
