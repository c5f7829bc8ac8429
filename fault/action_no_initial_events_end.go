package fault

import "net/http"

// NoInitialEventsEnd removes the bookmark that ends the initial events of a streaming list.
// Such a watch is cut when the rule is removed: its client still waits.
type NoInitialEventsEnd struct{}

// Serve implements Action.
func (*NoInitialEventsEnd) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	Frames(w, r, next, func(f Frame) []Frame {
		if f.Type == "BOOKMARK" && f.About().InitialEventsEnd {
			f.EndAtRemoval()
			return nil
		}
		return []Frame{f}
	})
}

func (*NoInitialEventsEnd) check(*Rule, host) error { return nil }
