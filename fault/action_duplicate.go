package fault

import "net/http"

// Duplicate sends each event of a watch twice.
type Duplicate struct{}

// Serve implements Action.
func (*Duplicate) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	Frames(w, r, next, func(f Frame) []Frame { return []Frame{f, f} })
}

func (*Duplicate) check(*Rule, host) error { return nil }
