package fault

import "net/http"

// EarlyBookmark sends a plain bookmark before the first event of a watch, with that event's
// resourceVersion: the initial events have not ended, and it does not say so.
type EarlyBookmark struct{}

// Serve implements Action.
func (*EarlyBookmark) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	sent := false
	Frames(w, r, next, func(f Frame) []Frame {
		if sent || f.Type == Opened || f.Type == "ERROR" {
			return []Frame{f}
		}
		sent = true
		return []Frame{f.Bookmark(f.About().ResourceVersion), f}
	})
}

func (*EarlyBookmark) check(*Rule, host) error { return nil }
