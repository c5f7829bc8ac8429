package fault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/fault/internal/wire"
)

// Throttle sends answers slowly.
type Throttle struct {
	BytesPerSecond int `json:"bytesPerSecond"`
}

// Serve implements Action.
func (t *Throttle) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	slow := &throttled{ctx: lasting(r), rate: t.BytesPerSecond}
	next.ServeHTTP(wire.New(w, r, slow, func(func()) {}), r)
}

func (t *Throttle) check(*Rule, Host) error {
	if t.BytesPerSecond <= 0 {
		return errors.New("with.bytesPerSecond: want a number above 0")
	}
	return nil
}

// throttled passes at most rate bytes a second on, in ten pieces a second.
type throttled struct {
	ctx  context.Context //nolint:containedctx // the body is the call
	rate int
	to   io.Writer
}

// Open implements wire.Body.
func (t *throttled) Open(to io.Writer, _ http.Header, _ int) { t.to = to }

// Write implements wire.Body.
func (t *throttled) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return t.to.Write(p)
	}
	for done := 0; done < len(p); {
		size := min(len(p)-done, max(1, t.rate/10))
		select {
		case <-Removed(t.ctx):
			size = len(p) - done
		default:
			pause(t.ctx, time.Duration(size)*time.Second/time.Duration(t.rate))
		}
		n, err := t.to.Write(p[done : done+size])
		if done += n; err != nil {
			return done, err
		}
	}
	return len(p), nil
}
