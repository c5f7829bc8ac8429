package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/kube"
)

// fail answers with the Status of err. It does nothing when the answer has
// begun: then the handler has ended it in its own way.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if rec, ok := w.(*recorder); ok && rec.code != 0 {
		return
	}
	if isGone(r, err) {
		s.logger.DebugContext(r.Context(), "client left", slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	status := kube.StatusOf(err)
	if seconds, ok := kube.RetryAfter(status); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if status.Code >= http.StatusInternalServerError && status.Code != http.StatusGatewayTimeout {
		s.logger.WarnContext(r.Context(), "request failed", slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Int("code", int(status.Code)), slog.Any("error", err))
	}
	body, encodeErr := json.Marshal(status)
	if encodeErr != nil {
		http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
		return
	}
	into := plain(r)
	into.gzip = false
	s.writeBody(w, into, answer{code: int(status.Code), body: body})
}

// answer is a whole body of JSON, without a newline at its end.
type answer struct {
	code int
	body []byte
}

// writeBody answers in the form that the client wants.
func (s *Server) writeBody(w http.ResponseWriter, into rendering, a answer) {
	media, body := mediaJSON, a.body
	switch {
	case into.format == formatYAML:
		if converted, err := yaml.JSONToYAML(body); err == nil {
			media, body = mediaYAML, converted
		}
	case into.pretty:
		var indented bytes.Buffer
		if json.Indent(&indented, body, "", "  ") == nil {
			body = indented.Bytes()
		}
	}
	out := newCompressor(w, into.gzip)
	defer out.release()
	w.Header().Set("Content-Type", media)
	out.code = a.code
	out.Write(body)
	if media == mediaJSON {
		out.Write([]byte("\n"))
	}
	out.close()
}

// plain is the form of answers that are no objects: JSON, or YAML for who likes
// that best.
func plain(r *http.Request) rendering {
	into := rendering{pretty: wantsPretty(r), gzip: acceptsGzip(r)}
	if ranges := parseAccept(r.Header.Values("Accept")); len(ranges) > 0 && ranges[0].name == mediaYAML {
		into.format = formatYAML
	}
	return into
}

// writeJSON encodes v and answers with it.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.fail(w, r, kube.Internal(fmt.Errorf("encode the answer: %w", err)))
		return
	}
	s.writeBody(w, plain(r), answer{code: http.StatusOK, body: body})
}

// writeWritten answers a write.
func (s *Server) writeWritten(w http.ResponseWriter, into rendering, out kube.Written) error {
	addWarnings(w, out.Warnings)
	code := http.StatusOK
	if out.Created {
		code = http.StatusCreated
	}
	if out.Object != nil {
		s.writeBody(w, into, answer{code: code, body: out.Object.JSON()})
		return nil
	}
	body, err := json.Marshal(out.Status)
	if err != nil {
		return kube.Internal(fmt.Errorf("encode the status: %w", err))
	}
	s.writeBody(w, into, answer{code: code, body: body})
	return nil
}

// addWarnings adds Warning headers as long as there is room for them: clients
// refuse an answer whose headers are too long, and a body may have a hundred
// thousand unknown fields (apiserver pkg/endpoints/filters/warning.go).
func addWarnings(w http.ResponseWriter, warnings []string) {
	const oneBytes, allBytes = 1024, 4096
	total := 0
	for _, warning := range warnings {
		if len(warning) > oneBytes {
			warning = strings.ToValidUTF8(warning[:oneBytes], "")
		}
		if total += len(warning); total > allBytes {
			return
		}
		addWarning(w, warning)
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
