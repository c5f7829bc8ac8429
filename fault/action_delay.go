package fault

import (
	"errors"
	"net/http"
	"time"
)

// Delay makes requests, or the events of watches, late.
type Delay struct {
	// For is how long a request waits before the server gets it.
	For time.Duration `json:"for,omitzero"`
	// Event is how long each event of a watch waits.
	Event time.Duration `json:"event,omitzero"`
}

// Serve implements Action.
func (d *Delay) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) { //nolint:contextcheck // events of a WebSocket outlive the request
	if d.For > 0 {
		pause(r.Context(), d.For)
	}
	if d.Event == 0 || !isWatch(r) {
		next.ServeHTTP(w, r)
		return
	}
	ctx := lasting(r)
	Frames(w, r, next, func(f Frame) []Frame {
		if f.Type != Opened {
			pause(ctx, d.Event)
		}
		return []Frame{f}
	})
}

func (d *Delay) check(r *Rule, _ host) error {
	if d.Event > 0 && noWatch(r) {
		return errors.New("with.event is about the events of a watch: add the verb watch, or remove it")
	}
	if d.For < 0 || d.Event < 0 || d.For+d.Event == 0 {
		return errors.New("set with.for or with.event to a duration like 500ms")
	}
	return nil
}
