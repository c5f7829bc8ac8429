package fault

import (
	"errors"
	"net/http"
	"time"
)

// ShortWatch ends a watch soon, as a server or a proxy with a short timeout does.
type ShortWatch struct {
	// For is how long the watch lasts. With neither For nor Frames it ends at once.
	For time.Duration `json:"for,omitzero"`
	// Frames is how many events are sent before the end.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (s *ShortWatch) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	end := After(s.Frames, func(Frame) []Frame { return []Frame{{Type: Opened, End: Clean}} })
	Frames(w, r, next, func(f Frame) []Frame {
		if f.Type == Opened && s.For > 0 {
			f.Later(s.For, func() []Frame { return []Frame{{Type: Opened, End: Clean}} })
		}
		if s.Frames == 0 && s.For > 0 {
			return []Frame{f}
		}
		return end(f)
	})
}

func (s *ShortWatch) check(*Rule, host) error {
	if s.For < 0 || s.Frames < 0 {
		return errors.New("with.for and with.frames cannot be negative")
	}
	return nil
}
