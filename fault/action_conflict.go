package fault

import (
	"net/http"

	"github.com/gapless-io/gapless/internal/wire"
)

// Conflict refuses a write with 409, as if somebody else had written the object first.
type Conflict struct{}

// Serve implements Action.
func (*Conflict) Serve(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	q := RequestOf(r)
	Refuse(w,
		wire.Conflict(groupResource(q), q.Name,
			"the object has been modified; please apply your changes to the latest version and try again"))
}

func (*Conflict) check(*Rule, host) error { return nil }
