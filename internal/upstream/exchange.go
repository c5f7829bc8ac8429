package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

// Exchange is how a request passes to a server, and the answer back.
type Exchange struct {
	// Rewrite changes the request, which goes to the server already; nil: nothing more.
	Rewrite func(*httputil.ProxyRequest)
	// Through sends the request; nil: the server.
	Through http.RoundTripper
	// Answer changes the answer; nil: nothing.
	Answer func(*http.Response) error
	// Failed answers a request, as it was sent, that the server did not answer. The error is an
	// *UnreachableError or a *BodyError: see Refusal.
	Failed func(http.ResponseWriter, *http.Request, error)
	Logger *slog.Logger
}

// Pass passes a request to the server, and the answer back: each write at once, queries as they are, and
// connections that switch to another protocol. It panics with http.ErrAbortHandler when the client has
// left, and when the answer ends early.
func (s *Server) Pass(w http.ResponseWriter, r *http.Request, e Exchange) {
	reverse := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(s.URL)
			p.Out.URL.RawQuery = p.In.URL.RawQuery // also what Go cannot parse: the server decides
			if p.Out.Body != nil && r.ProtoMajor > 1 {
				p.Out.Body = &body{ReadCloser: p.Out.Body, client: http.NewResponseController(w)}
			}
			if e.Rewrite != nil {
				e.Rewrite(p)
			}
		},
		Transport:      s,
		ModifyResponse: e.Answer,
		FlushInterval:  -1, // each event of a watch at once
		BufferPool:     &s.buffers,
		ErrorLog:       slog.NewLogLogger(e.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(r.Context().Err(), context.Canceled) {
				panic(http.ErrAbortHandler) // the client has left, or the proxy stops
			}
			_, unreachable := errors.AsType[*UnreachableError](err)
			_, body := errors.AsType[*BodyError](err)
			if !unreachable && !body { // an answer that cannot be passed on, such as a switch to another protocol than was wanted
				err = &UnreachableError{Host: s.URL.Host, Sent: true, Changes: changes(r), Err: err}
			}
			e.Failed(w, r, err)
		},
	}
	if e.Through != nil {
		reverse.Transport = e.Through
	}
	reverse.ServeHTTP(w, r)
}

// body is that of a request over HTTP/2 on its way to the server. The server may answer before it has
// all of it: then the end of the answer must not wait for a client that sends nothing more when the
// answer is an error, as clients do over HTTP/2. ReverseProxy does not close the body that it reads.
type body struct {
	io.ReadCloser

	client *http.ResponseController
	ended  atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

// Close ends a Read that waits for the client.
func (b *body) Close() error {
	if !b.ended.Load() {
		_ = b.client.SetReadDeadline(time.Unix(1, 0)) // of the stream; where there are no deadlines, the Read waits
	}
	return b.ReadCloser.Close()
}

// buffers are lent to copy answers.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10 // that of io.Copy

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, is := b.pool.Get().(*[bufferBytes]byte); is {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }
