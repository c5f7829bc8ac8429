package fault

import "net/http"

// NoInitialEventsEnd removes the bookmark that ends the initial events of a streaming list.
type NoInitialEventsEnd struct{}

// Serve implements Action.
func (*NoInitialEventsEnd) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	Frames(w, r, next, func(f Frame) []Frame {
		if f.Type == "BOOKMARK" && f.About().InitialEventsEnd {
			return nil
		}
		return []Frame{f}
	})
}

func (*NoInitialEventsEnd) check(*Rule, Host) error { return nil }
