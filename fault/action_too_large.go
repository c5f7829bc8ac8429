package fault

import (
	"net/http"

	"github.com/gapless-io/gapless/kube"
)

// TooLarge says that the resourceVersion is ahead of the server's (504 Timeout), as a
// server that lags behind another says it. Requests without a resourceVersion pass.
type TooLarge struct{}

// Serve implements Action.
func (t *TooLarge) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rv := rvOf(r)
	if rv == 0 {
		next.ServeHTTP(w, r)
		return
	}
	ahead := &kube.TooLargeResourceVersionError{Requested: rv, Current: rv - 1}
	if !isWatch(r) {
		Refuse(w, ahead)
		return
	}
	Frames(w, r, next, After(0, func(last Frame) []Frame {
		end := last.Status(ahead)
		end.End = Clean
		return []Frame{end}
	}))
}

func (*TooLarge) check(*Rule, host) error { return nil }
