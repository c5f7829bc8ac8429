package apiserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/kube"
)

// ServeHTTP answers a request. A watch is run from here, where little of the
// stack is used: it may last for hours.
//
//nolint:contextcheck // a feed has the context that it lives in
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch f := s.begin(&recorder{ResponseWriter: w}, r); {
	case f == nil:
	case f.detached:
		go func() { // ends with the client or with Drain, and Wait waits for it
			defer s.open.end()
			s.runFeed(f)
		}()
	default:
		defer s.open.end()
		s.runFeed(f)
	}
}

// begin does all of a request but the running of a watch. It answers 500 where a
// handler panicked before it answered, and cuts the connection where it had begun
// to: half an answer must not look whole.
func (s *Server) begin(rec *recorder, r *http.Request) *feed {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		s.logger.ErrorContext(r.Context(), "handler panicked", slog.Any("cause", cause),
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
		if rec.code != 0 {
			panic(http.ErrAbortHandler)
		}
		s.fail(rec, r, kube.Internal(fmt.Errorf("panic: %v", cause)))
	}()
	return s.admit(rec, r)
}

// admit identifies the caller, resolves the route, checks permission and load,
// and measures.
func (s *Server) admit(rec *recorder, r *http.Request) *feed {
	rec.Header().Set("Audit-Id", auditID(r))
	rec.Header().Set("Cache-Control", "no-cache, private")
	began := time.Now()
	rt, err := resolve(s.cfg.Live.Load(), r)
	if err == nil && isOpen(rt, r) {
		s.serveOther(rec, r, rt)
		return nil
	}
	user, authErr := auth.Authenticate(r)
	switch {
	case authErr != nil:
		err = authErr
	case err == nil:
		err = auth.Authorize(user, rt.attributes(r))
	}
	if rt.Resource != nil && rt.Resource.Deprecation != "" {
		addWarning(rec, rt.Resource.Deprecation)
	}
	ended := s.account(rec, r, rt, began)
	switch {
	case err != nil:
		s.fail(rec, r, err)
	case rt.verb == verbWatch:
		f, err := s.watch(rec, r, rt)
		if err != nil {
			s.fail(rec, r, err)
		}
		if f != nil {
			closed := s.metrics.longRunning(rt)
			f.ended = func() { closed(); ended() }
			if f.detached {
				rec.ResponseWriter = nil // and with it all of the request
			}
			return f
		}
	default:
		s.serveWithin(rec, r, rt)
	}
	ended()
	return nil
}

// account returns what counts and logs a request when it has ended. It keeps
// nothing of the request but what it will say.
func (s *Server) account(rec *recorder, r *http.Request, rt route, began time.Time) (ended func()) {
	var said []slog.Attr
	if s.logger.Enabled(r.Context(), slog.LevelDebug) {
		said = []slog.Attr{
			slog.String("verb", string(rt.verb)), slog.String("uri", r.URL.RequestURI()),
			slog.String("user_agent", r.UserAgent()), slog.String("audit_id", rec.Header().Get("Audit-Id")),
		}
	}
	return func() {
		s.metrics.observe(rt, rec, time.Since(began))
		if said != nil {
			s.logger.LogAttrs(s.draining, slog.LevelDebug, "request", append(said, slog.Int("resp", rec.code), slog.Duration("latency", time.Since(began)))...)
		}
	}
}

// serveWithin bounds how many requests that are no watches run at once, and how
// long each.
func (s *Server) serveWithin(w http.ResponseWriter, r *http.Request, rt route) {
	kind := s.metrics.inFlight(rt)
	kind.Inc()
	defer kind.Dec()
	defer s.inFlight.Add(-1)
	if s.inFlight.Add(1) > int64(s.cfg.MaxInFlight) {
		s.fail(w, r, kube.TooManyRequests("Too many requests, please try again later.", time.Second))
		return
	}
	timeout, err := kube.ParseTimeout(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if timeout <= 0 || timeout > defaultDeadline {
		timeout = defaultDeadline
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	// Whoever neither sends its body nor takes its answer must not stay for ever. The
	// body's limit is after the request's, so that it is answered and not cut off.
	ctl, limit := http.NewResponseController(w), time.Now().Add(timeout)
	_ = ctl.SetReadDeadline(limit.Add(time.Second)) // without support there is no limit
	_ = ctl.SetWriteDeadline(limit.Add(answerWithin))
	s.serve(w, r.WithContext(ctx), rt)
}

// isOpen says whether a path answers without credentials: health with its single
// checks, and version.
func isOpen(rt route, r *http.Request) bool {
	switch {
	case rt.Resource != nil || r.Method != http.MethodGet:
		return false
	case rt.path[0] == "version":
		return len(rt.path) == 1
	}
	return slices.Contains([]string{"livez", "readyz", "healthz"}, rt.path[0])
}

// auditID is the client's id of the request, or a new one.
func auditID(r *http.Request) string {
	const longest = 64 // apiserver pkg/audit: longer ones are cut
	if id := r.Header.Get("Audit-Id"); id != "" {
		return id[:min(len(id), longest)]
	}
	return rand.Text()
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter

	code  int
	bytes int64
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
