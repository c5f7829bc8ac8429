package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/wire"
)

// statusPath is where a server reports its state.
const statusPath = "/gapless/v1/status"

// status is an extension: the state of the server, for who may GET its path.
func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	status, err := s.cfg.Status(r.Context())
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, status)
}
