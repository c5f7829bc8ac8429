package fault

import (
	"net/http"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// ExpiredContinue refuses the further pages of a list, because its state was removed (410).
// Requests without a continue token pass.
type ExpiredContinue struct {
	// Fresh adds a token to the refusal, for the rest of the list in its latest state.
	Fresh bool `json:"fresh,omitzero"`
}

// Serve implements Action.
func (e *ExpiredContinue) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	token := r.URL.Query().Get("continue")
	if token == "" {
		next.ServeHTTP(w, r)
		return
	}
	rv, start, err := wire.DecodeContinue(token)
	if rv < 0 { // it is a fresh token already: it has no state that could be removed
		next.ServeHTTP(w, r)
		return
	}
	gone := &kube.ExpiredError{
		Kind: kube.ExpiredContinue, Requested: kube.ResourceVersion(rv), Oldest: kube.ResourceVersion(rv) + 1,
	}
	if err == nil && e.Fresh {
		const latest = -1
		gone.Continue = wire.EncodeContinue(latest, start)
	}
	Refuse(w, gone)
}

func (*ExpiredContinue) check(*Rule, host) error { return nil }
