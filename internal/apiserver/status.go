package apiserver

import (
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/status"
)

// status is an extension: the state of the server, for who may GET its path.
func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	watches, err := StatusWatches(r)
	if err != nil {
		return err
	}
	state, err := s.cfg.Status(r.Context(), watches)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, state)
}

// StatusWatches returns how many watches a request for a status wants to see. Errors: 400.
func StatusWatches(r *http.Request) (int, error) {
	text := r.URL.Query().Get(status.WatchesParameter)
	if text == "" {
		return status.MostWatches, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > status.MostWatches {
		return 0, wire.BadRequest("%s=%q: want a number from 0 to %d", status.WatchesParameter, text, status.MostWatches)
	}
	return n, nil
}
