package fault

import (
	"net/http"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

// TooManyRequests refuses requests with 429.
type TooManyRequests struct {
	// RetryAfter is sent in the header of this name, in whole seconds; 0 leaves it out.
	RetryAfter time.Duration `json:"retryAfter,omitzero"`
}

// Serve implements Action.
func (t *TooManyRequests) Serve(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	Refuse(w, wire.TooManyRequests("Too many requests, please try again later.", t.RetryAfter))
}

func (t *TooManyRequests) check(*Rule, host) error { return checkRetryAfter(t.RetryAfter) }
