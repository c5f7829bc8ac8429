package fault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Cut ends the answer by ending the connection.
type Cut struct {
	// How is "clean", between two events, which is the default; "mid-frame", within the next
	// event; or "reset", a TCP reset. A request that is no watch gets no answer.
	How string `json:"how,omitzero"`
	// Frames is how many events of a watch are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (c *Cut) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	how := Severed
	if c.How == "reset" {
		how = Reset
	}
	if !isWatch(r) {
		cut(r, how)
	}
	if c.How != "mid-frame" {
		Frames(w, r, next, After(c.Frames, func(Frame) []Frame { return []Frame{{Type: Opened, End: how}} }))
		return
	}
	passed := -1 // Opened is no event
	Frames(w, r, next, func(f Frame) []Frame {
		if passed++; passed > c.Frames {
			f.Half, f.End = true, how
		}
		return []Frame{f}
	})
}

func (c *Cut) check(r *Rule, _ host) error {
	if noWatch(r) && (c.Frames > 0 || c.How == "mid-frame") {
		return errors.New("with.frames and mid-frame are about the events of a watch: add the verb watch, or remove them")
	}
	if !slices.Contains([]string{"", "clean", "mid-frame", "reset"}, c.How) || c.Frames < 0 {
		return fmt.Errorf("with.how is %q and with.frames %d: want clean, mid-frame or reset, and 0 or more", c.How, c.Frames)
	}
	return nil
}
