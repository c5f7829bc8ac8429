package frames

import (
	"bytes"
	"net/http"
)

// Recorder keeps an answer instead of sending it. It is an http.ResponseWriter.
type Recorder struct {
	Code int // 0 until there is one
	Body bytes.Buffer

	header http.Header
	most   int
}

// NewRecorder returns one that keeps so many bytes of the body at most.
func NewRecorder(most int) *Recorder { return &Recorder{header: http.Header{}, most: most} }

// Header implements http.ResponseWriter.
func (r *Recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(code int) {
	if r.Code == 0 {
		r.Code = code
	}
}

// Write implements http.ResponseWriter.
func (r *Recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.Body.Write(p[:min(len(p), r.most-r.Body.Len())])
	return len(p), nil
}
