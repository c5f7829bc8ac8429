package fault

import (
	"errors"
	"net/http"

	"github.com/gapless-io/gapless/internal/wire"
)

// InternalError fails with 500: a watch by an ERROR event, other requests by the answer.
type InternalError struct {
	// Frames is how many events of a watch are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (e *InternalError) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	failed := wire.Internal(errors.New("etcdserver: request timed out"))
	if !isWatch(r) {
		Refuse(w, failed)
		return
	}
	Frames(w, r, next, After(e.Frames, func(last Frame) []Frame {
		end := last.Status(failed)
		end.End = Clean
		return []Frame{end}
	}))
}

func (e *InternalError) check(r *Rule, _ host) error { return checkFrames(e.Frames, r) }
