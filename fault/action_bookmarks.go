package fault

import "net/http"

// NoBookmarks removes all bookmarks but the one that ends the initial events.
type NoBookmarks struct{}

// Serve implements Action.
func (*NoBookmarks) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	Frames(w, r, next, func(f Frame) []Frame {
		if f.Type == "BOOKMARK" && !f.About().InitialEventsEnd {
			return nil
		}
		return []Frame{f}
	})
}

func (*NoBookmarks) check(*Rule, host) error { return nil }
