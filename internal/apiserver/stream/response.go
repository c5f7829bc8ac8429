package stream

import (
	"net/http"
	"time"
)

// response writes the answer of a handler.
type response struct {
	gather

	w    http.ResponseWriter
	ctl  *http.ResponseController
	gone <-chan struct{}
}

// Respond sends the header, which must be complete, with status 200, and returns
// the sink that writes the body; zip compresses it. The handler must not return
// before the sink's End. An error says that the client is gone.
func Respond(w http.ResponseWriter, r *http.Request, zip bool) (Sink, error) {
	s := &response{w: w, ctl: http.NewResponseController(w), gone: r.Context().Done()}
	s.send = s.write
	if zip {
		s.zip = &zipped{}
	}
	w.WriteHeader(http.StatusOK)
	return s, s.ctl.Flush()
}

func (s *response) write(piece []byte) error {
	if _, err := s.w.Write(piece[before:]); err != nil {
		return err
	}
	return s.ctl.Flush()
}

// Limit implements Sink.
func (s *response) Limit(t time.Time) { _ = s.ctl.SetWriteDeadline(t) } // without support there is none

// Gone implements Sink.
func (s *response) Gone() <-chan struct{} { return s.gone }

// End implements Sink.
func (s *response) End(e Ending) {
	if e == Broken {
		panic(http.ErrAbortHandler)
	}
	_ = s.finish() // the handler's return ends the body
}
