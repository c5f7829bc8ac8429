package fault

import (
	"net/http"

	"github.com/gapless-io/gapless/internal/wire"
)

// Unauthorized refuses requests with 401, as if the credentials were not known.
type Unauthorized struct{}

// Serve implements Action.
func (*Unauthorized) Serve(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	Refuse(w, wire.Unauthorized())
}

func (*Unauthorized) check(*Rule, host) error { return nil }
