package fault

import (
	"errors"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/fault/internal/frames"
)

// Throttle sends answers slowly.
type Throttle struct {
	BytesPerSecond int `json:"bytesPerSecond"`
}

// Serve implements Action.
func (t *Throttle) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := lasting(r)
	slow := &frames.Throttle{Rate: t.BytesPerSecond, Pause: func(d time.Duration) bool {
		pause(ctx, d)
		select {
		case <-Removed(ctx):
			return true
		default:
			return false
		}
	}}
	next.ServeHTTP(frames.New(w, r, slow, func(func()) {}), r)
}

func (t *Throttle) check(*Rule, host) error {
	if t.BytesPerSecond <= 0 {
		return errors.New("with.bytesPerSecond: want a number above 0")
	}
	return nil
}
