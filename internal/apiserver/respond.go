package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/kube"
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
	if s.cfg.Failed != nil && s.cfg.Failed(w, r, err) {
		if recorded {
			rec.elsewhere = true
		}
		return
	}
	status := kube.StatusOf(err)
	if seconds, ok := kube.RetryAfter(status); ok {
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
		return kube.Internal(fmt.Errorf("encode the answer: %w", err))
	}
	render.Write(w, render.Plain(r), http.StatusOK, body)
	return nil
}

// isGone reports whether a request failed because its client left. When the time of a request
// is over its client still waits for the answer.
func isGone(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled)
}

// warnings adds Warning headers to an answer, each once, up to 4 KiB: clients refuse an answer
// whose headers are too long, and a body may have a hundred thousand unknown fields (apiserver
// pkg/endpoints/filters/warning.go).
type warnings struct {
	w http.ResponseWriter

	// mu is for admission plugins, which may add warnings at the same time.
	mu    sync.Mutex
	added []string
	total int
}

var _ warning.Recorder = (*warnings)(nil)

// AddWarning implements warning.Recorder.
func (a *warnings) AddWarning(_, text string) {
	const oneBytes, allBytes = 1024, 4096
	if len(text) > oneBytes {
		text = strings.ToValidUTF8(text[:oneBytes], "")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.added, text) || a.total+len(text) > allBytes {
		return
	}
	a.total += len(text)
	a.added = append(a.added, text)
	addWarning(a.w, text)
}

// addWarnings adds the warnings of a write to its answer.
func addWarnings(ctx context.Context, texts []string) {
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}

// addWarning adds a Warning header (RFC 7234, code 299), as kubectl prints them.
func addWarning(w http.ResponseWriter, text string) {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	w.Header().Add("Warning", "299 - "+strconv.Quote(text))
}
