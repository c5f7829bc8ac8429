package fault

import (
	"cmp"
	"errors"
	"net/http"
)

// Split sends each event in many writes.
type Split struct {
	// Writes is how many; the default is 10.
	Writes int `json:"writes,omitzero"`
}

const defaultWrites = 10

// Serve implements Action.
func (s *Split) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	Frames(w, r, next, func(f Frame) []Frame {
		f.Writes = cmp.Or(s.Writes, defaultWrites)
		return []Frame{f}
	})
}

func (s *Split) check(*Rule, host) error {
	if s.Writes < 0 || s.Writes == 1 || s.Writes > 10_000 {
		return errors.New("with.writes: want a number from 2 to 10000")
	}
	return nil
}
