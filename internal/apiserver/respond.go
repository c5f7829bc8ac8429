package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/wire"
)

// fail answers with the Status of err. It does nothing when the answer has begun.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	rec, recorded := w.(*recorder)
	if recorded && rec.code != 0 {
		return
	}
	if isGone(r, err) {
		s.logger.DebugContext(r.Context(), "client left", slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	if undecided, is := errors.AsType[*undecidedError](err); is {
		s.logger.WarnContext(r.Context(), "a request could not be authorized", slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Any("error", undecided.failure))
		undecided.write(w, r)
		return
	}
	status := wire.StatusOf(err)
	if seconds, ok := wire.RetryAfter(status); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if status.Code >= http.StatusInternalServerError && status.Code != http.StatusGatewayTimeout {
		s.logger.WarnContext(r.Context(), "request failed", slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Int("code", int(status.Code)), slog.Any("error", err))
	}
	if recorded {
		rec.audited.AnsweredStatus(&status)
	}
	into := render.Failed(r)
	body, encodeErr := render.Status(into, status)
	if encodeErr != nil {
		http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
		return
	}
	render.Write(w, into, int(status.Code), body)
}

// writeJSON encodes v and answers with it.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return wire.Internal(fmt.Errorf("encode the answer: %w", err))
	}
	render.Write(w, render.Plain(r), http.StatusOK, body)
	return nil
}

// isGone reports whether a request failed because its client left. When the time of a request
// is over its client still waits for the answer.
func isGone(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled)
}
