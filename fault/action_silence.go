package fault

import (
	"errors"
	"net/http"

	"github.com/gapless-io/gapless/fault/internal/conn"
)

// Silence leaves the connection open and sends nothing more, not even answers to pings,
// until the rule is removed; then the connection is cut. All requests of the connection
// are concerned.
type Silence struct {
	// Frames is how many events of a watch are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (s *Silence) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if isWatch(r) {
		Frames(w, r, next, After(s.Frames, func(Frame) []Frame { return []Frame{{Type: Opened, End: Silent}} }))
		return
	}
	if c := conn.From(r.Context()); c != nil {
		c.Silence(injectionOf(r.Context()).atEnd)
	}
	select {
	case <-r.Context().Done():
	case <-Removed(r.Context()):
	}
	cut(r, Severed)
}

func (s *Silence) check(r *Rule, _ host) error { return checkFrames(s.Frames, r) }

// checkFrames checks how many events are sent before.
func checkFrames(n int, r *Rule) error {
	switch {
	case n < 0:
		return errors.New("with.frames cannot be negative")
	case n > 0 && noWatch(r):
		return errors.New("with.frames is about the events of a watch: add the verb watch, or remove it")
	}
	return nil
}
