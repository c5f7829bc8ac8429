package fault

import (
	"errors"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

// Unavailable refuses requests with 503.
type Unavailable struct {
	// RetryAfter is sent in the header of this name, in whole seconds; 0 leaves it out.
	RetryAfter time.Duration `json:"retryAfter,omitzero"`
}

// Serve implements Action.
func (u *Unavailable) Serve(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	Refuse(w, wire.Unavailable("apiserver is shutting down", u.RetryAfter))
}

func (u *Unavailable) check(*Rule, host) error { return checkRetryAfter(u.RetryAfter) }

func checkRetryAfter(d time.Duration) error {
	if d < 0 || d%time.Second != 0 {
		return errors.New("with.retryAfter: want whole seconds, like 2s; without it there is no Retry-After")
	}
	return nil
}
