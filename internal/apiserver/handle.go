package apiserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/metrics"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Aggregator != nil && s.cfg.Aggregator.Any() {
		rt, err := route.Read(r)
		if behind := s.cfg.Aggregator.Behind(rt.Path); behind != nil && err == nil {
			s.serve(w, r, resolved{Route: rt, behind: behind})
			return
		}
	}
	rt, err := route.Resolve(s.cfg.Live.Load(), r)
	s.serve(w, r, resolved{Route: rt, wrong: err})
}

// ServeReading answers a list or a watch whose route was resolved, and which was read by Read. The request is
// not changed.
func (s *Server) ServeReading(w http.ResponseWriter, r *http.Request, rt route.Route, of *Reading) {
	served := r.WithContext(warning.WithWarningRecorder(r.Context(), &warnings{w: w}))
	served.Header = maps.Clone(r.Header) // authentication removes the token
	s.serve(w, served, resolved{Route: rt, reading: of, sent: r})
}

// resolved is a request whose route is known.
type resolved struct {
	route.Route

	wrong   error               // what is wrong with the path and the method
	reading *Reading            // nil: the rest of the request was not read yet
	sent    *http.Request       // with reading: as it came
	behind  *aggregator.Backend // who serves it; nil: this server
}

// serve answers a request. A watch is run from here, where little of the
// stack is used: it may last for hours.
//
//nolint:contextcheck // a feed has the context that it lives in
func (s *Server) serve(w http.ResponseWriter, r *http.Request, q resolved) {
	if r.Context().Err() != nil { // canceled before it began: the client does not wait for an answer
		limit.Of(r.Context()).Fault(limit.Resets)
		panic(http.ErrAbortHandler) // a return would be 200
	}
	switch f := s.handle(&recorder{ResponseWriter: w}, r, q); {
	case f == nil:
	case f.Detached:
		go s.feeds.Run(f) // ends with the client or with Drain, and Wait waits for it
	default:
		s.feeds.Run(f)
	}
}

// handle does all of a request but the running of a watch, which it returns: it identifies
// the caller, checks permissions, and measures.
func (s *Server) handle(rec *recorder, r *http.Request, rt resolved) *feed.Feed {
	defer rec.endSpan()
	defer s.recoverPanic(rec, r)
	rec.Header().Set("Audit-Id", auditID(r))
	rec.Header().Set("Cache-Control", "no-cache, private")
	began := time.Now()
	err := rt.wrong
	if err == nil && !s.cfg.FrontProxy {
		err = auth.RefuseClaims(r.Header)
	}
	if err == nil && !s.cfg.PrivateHealth && isOpen(rt.Route, r) && !authn.Impersonates(r.Header) {
		s.serveOpen(rec, r, rt.Route, began)
		return nil
	}
	sender, authErr := s.cfg.Authenticator.Authenticate(hearing(rec, r)) // who sent it: limits count for him
	known := knownAs(sender, authErr)
	r, auditErr := s.audit(rec, s.traced(rec, r, traced{&rt.Route, known, began}), known, began)
	switch {
	case auditErr != nil:
		err = auditErr
	case authErr != nil:
		err = authErr
		refuseUnread(rec, r)
	default:
		// Who may not ask does not learn what is wrong with the request.
		var refused error
		if r, refused = s.authorize(r, &rt.Route, sender); refused != nil {
			err = refused
		}
		if err == nil {
			err = s.compareHistory(rec, r, rt.Query)
		}
	}
	if authErr == nil {
		conn := limit.Of(r.Context())
		if sender.GetName() != user.Anonymous {
			conn.Known(r.ProtoMajor)
		}
		r.Body = conn.Request(r.Body)
	}
	// the text is only for who may ask
	if err == nil && rt.Resource != nil && rt.Resource.Deprecation != "" && !rt.Verb.Writes() {
		addWarning(rec, rt.Resource.Deprecation)
	}
	ended := s.account(rec, r, rt.Route, began)
	switch {
	case err != nil:
	case rt.behind != nil:
		err = s.pass(rec, r, rt, sender.GetName())
	case rt.Verb == route.Watch:
		var f *feed.Feed
		var release func()
		if f, release, err = s.openWatch(rec, r, rt, sender.GetName()); f == nil {
			break
		}
		closed := s.metrics.LongRunning(&rt.Route)
		f.OnEnd(func() { closed(); release(); ended() })
		if f.Detached {
			rec.ResponseWriter = nil // and with it all of the request
		}
		return f
	default:
		err = s.serveLimited(rec, r, rt, sender.GetName())
	}
	s.refuse(rec, r, rt, err)
	ended()
	return nil
}

// refuse answers a request with an error, if there is one, or lets somebody else answer it.
func (s *Server) refuse(rec *recorder, r *http.Request, rt resolved, err error) {
	if err != nil && !fallBack(rec, r, rt, err) {
		s.metrics.Expired(&rt.Route, err)
		s.fail(rec, r, err)
	}
}

// authorize finds out as which user a request runs, and whether that user may do it. It returns the
// request with the context for the rest of it.
func (s *Server) authorize(r *http.Request, rt *route.Route, sender user.Info) (*http.Request, error) {
	ctx := r.Context()
	a := rt.Attributes(r)
	asking := ctx
	if s.cfg.DecideWithin > 0 && authn.Impersonates(r.Header) {
		var asked context.CancelFunc
		asking, asked = context.WithTimeoutCause(ctx, s.cfg.DecideWithin, wire.Unavailable(
			fmt.Sprintf("what %s may do was not decided within %s", sender.GetName(), s.cfg.DecideWithin), time.Second))
		defer asked()
	}
	runs, err := s.impersonation.User(asking, r.Header, sender, a)
	if err != nil {
		return r, err
	}
	caller := runs.As
	if caller != sender {
		ctx = auth.WithOriginal(ctx, sender)
		audit.From(ctx).Impersonates(ctx, caller, runs.Constraint)
		r = r.WithContext(ctx)
	}
	rt.Caller = caller
	decided := s.cfg.Authorizer.Decide(asking, caller, a)
	if decided.Failure != nil && !decided.Allowed && decided.Refusal == nil {
		audit.From(ctx).Undecided(ctx)
		return r, &undecidedError{decided.Failure}
	}
	if audited := audit.From(ctx); audited != nil {
		audited.Decided(ctx, decided.Allowed, decided.Why())
		rt.Wrote = audited.Wrote
	}
	return r, decided.Err(caller, a)
}

// recoverPanic is deferred by handle. It answers 500 where a handler panicked before it
// answered, and otherwise cuts the connection: half an answer must not look complete.
//
//nolint:contextcheck // the request's context may have ended
func (s *Server) recoverPanic(rec *recorder, r *http.Request) {
	if rec.code == 0 && r.Context().Err() != nil {
		limit.Of(r.Context()).Fault(limit.Resets)
	}
	cause := recover()
	if cause == nil {
		return
	}
	rec.audited.Panicked(s.feeds.Draining(), cause)
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	s.logger.ErrorContext(r.Context(), "handler panicked", slog.Any("cause", cause),
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
	if rec.code != 0 {
		panic(http.ErrAbortHandler)
	}
	s.fail(rec, r, wire.Internal(fmt.Errorf("panic: %v", cause)))
}

// account returns a function that counts and logs a request when it has ended. The
// function keeps nothing of the request but what it logs.
//
//nolint:contextcheck // the request's context has ended when the function is called
func (s *Server) account(rec *recorder, r *http.Request, rt route.Route, began time.Time) (ended func()) {
	var attrs []slog.Attr
	if s.logger.Enabled(r.Context(), slog.LevelDebug) {
		attrs = []slog.Attr{
			slog.String("verb", string(rt.Verb)), slog.String("uri", r.URL.RequestURI()),
			slog.String("user_agent", r.UserAgent()), slog.String("audit_id", rec.Header().Get("Audit-Id")),
		}
	}
	return func() {
		if !rec.elsewhere {
			s.metrics.Observe(&rt, metrics.Answer{Code: rec.code, Bytes: rec.bytes, Took: time.Since(began)})
		}
		rec.audited.Completed(s.feeds.Draining(), rec.code)
		if attrs != nil {
			s.logger.LogAttrs(s.feeds.Draining(), slog.LevelDebug, "request",
				append(attrs, slog.Int("resp", rec.code), slog.Duration("latency", time.Since(began)))...)
		}
	}
}

// isOpen reports whether a path needs no credentials, unless the configuration says otherwise:
// health with its single checks, and version.
func isOpen(rt route.Route, r *http.Request) bool {
	switch {
	case rt.Resource != nil || r.Method != http.MethodGet:
		return false
	case rt.Path[0] == "version":
		return len(rt.Path) == 1
	}
	return slices.Contains([]string{"livez", "readyz", "healthz"}, rt.Path[0])
}

// auditID is the client's id of the request, or a new one.
func auditID(r *http.Request) string {
	const longest = 64 // apiserver pkg/audit: longer ones are cut
	if id := r.Header.Get("Audit-Id"); id != "" {
		return id[:min(len(id), longest)]
	}
	return rand.Text()
}

// recorder records the status and size of an answer.
type recorder struct {
	http.ResponseWriter

	code    int
	bytes   int64
	audited *audit.Request
	// answers is called before the answer is written, if it is not nil: its client may read slowly.
	answers func()
	// elsewhere says that Reading.Fallback has answered, which is not counted here.
	elsewhere bool
	span      tracing.Span
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	if code < http.StatusOK && code != http.StatusSwitchingProtocols { // it is not the answer yet
		r.ResponseWriter.WriteHeader(code)
		return
	}
	if r.answers != nil {
		r.answers()
	}
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.answers != nil {
		r.answers()
	}
	if r.code == 0 {
		r.code = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
