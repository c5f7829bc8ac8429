package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
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
