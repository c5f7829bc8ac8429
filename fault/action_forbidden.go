package fault

import (
	"net/http"

	"github.com/gapless-io/gapless/internal/wire"
)

// Forbidden refuses requests with 403, as if a role were missing.
type Forbidden struct{}

// Serve implements Action.
func (*Forbidden) Serve(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	q := RequestOf(r)
	why := "cannot " + q.Verb + " resource \"" + q.Resource + "\" in API group \"" + q.Group + "\""
	if q.Namespace != "" {
		why += " in the namespace \"" + q.Namespace + "\""
	}
	Refuse(w, wire.Forbidden(groupResource(q), q.Name, why))
}

func (*Forbidden) check(*Rule, host) error { return nil }
