package fault

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gapless-io/gapless/fault/internal/frames"
	"github.com/gapless-io/gapless/kube"
)

// Gone says that history was removed (410), in the shapes that servers and proxies have.
type Gone struct {
	// As is the shape: "frame" is an ERROR event in an answer 200, which is the default and
	// what API servers send; "http" is an answer 410; "empty" is an answer 200 that ends at
	// once; "close" is a WebSocket that ends without an event. A list is answered with HTTP 410.
	As string `json:"as,omitzero"`
	// Frames is how many events are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (g *Gone) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rv := rvOf(r)
	gone := &kube.ExpiredError{Requested: rv, Oldest: rv + 1, Kind: kube.ExpiredWatch}
	if !isWatch(r) {
		gone.Kind = kube.ExpiredList
	}
	switch as := cmp.Or(g.As, "frame"); {
	case as == "http" || !isWatch(r):
		Refuse(w, gone)
	case as == "empty" || as == "close" && !frames.IsUpgrade(r):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
	default:
		Frames(w, r, next, After(g.Frames, func(last Frame) []Frame {
			end := Frame{Type: Opened}
			if as == "frame" {
				end = last.Status(gone)
			}
			end.End = Clean
			return []Frame{end}
		}))
	}
}

func (g *Gone) check(r *Rule, _ host) error {
	if noWatch(r) && (g.Frames > 0 || g.As != "" && g.As != "http") {
		return errors.New(
			"with.as and with.frames are for watches; a list is answered with HTTP 410: add the verb watch, or remove them")
	}
	if as := []string{"", "frame", "http", "empty", "close"}; !slices.Contains(as, g.As) {
		return fmt.Errorf("with.as is %q: want frame, http, empty or close", g.As)
	}
	if g.Frames < 0 || g.Frames > 0 && (g.As == "http" || g.As == "empty") {
		return errors.New("with.frames: no event can precede an answer as http or empty; otherwise it is 0 or more")
	}
	return nil
}
