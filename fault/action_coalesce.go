package fault

import (
	"net/http"
	"time"
)

// Coalesce sends two events in one write. An event without another waits a moment.
type Coalesce struct{}

// coalesceWithin is how long an event waits for another.
const coalesceWithin = 200 * time.Millisecond

// Serve implements Action.
func (*Coalesce) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var held []Frame
	release := func() []Frame {
		out := held
		held = nil
		return out
	}
	Frames(w, r, next, func(f Frame) []Frame {
		if f.Type == Opened {
			return []Frame{f}
		}
		if held = append(held, f); len(held) > 1 {
			return release()
		}
		f.Later(coalesceWithin, release)
		return nil
	})
}

func (*Coalesce) check(*Rule, host) error { return nil }
