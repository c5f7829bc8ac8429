package fault

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/internal/faulthost"
)

// Restart closes all connections and refuses new ones for a time, as a server that is
// restarted. The request that it is applied to gets no answer.
type Restart struct {
	// For is how long new connections are refused; the default is a second.
	For time.Duration `json:"for,omitzero"`
	// Store restarts the server itself with this data, if its host can do that; "" only looks
	// like a restart. OlderStore is what was stored when the rule was added.
	Store Store `json:"store,omitzero"`
}

const maxDown = 10 * time.Minute

// Serve implements Action.
func (a *Restart) Serve(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	in := injectionOf(r.Context())
	if h := faulthost.Of(in.set).Host(); a.Store != "" && h != nil {
		in.rule.failed(h.Restart(string(a.Store)))
	} else {
		// What ends it is known before anybody can see it: the rule may be removed right then.
		in.rule.removal.at(in.set.conns.Refuse(cmp.Or(a.For, time.Second)))
		in.set.conns.Cut()
	}
	cut(r, Severed)
}

func (a *Restart) check(r *Rule, h host) error {
	switch {
	case a.For < 0 || a.For > maxDown:
		return fmt.Errorf("with.for is %v: want at most %v", a.For, maxDown)
	case r.Count == 0 && r.Match.Nth == 0:
		return errors.New("the server would restart with each request, and could not be reached: set count or match.nth")
	case a.Store == "":
		return nil
	case a.For != 0:
		return errors.New("with.for: a restart with a store takes as long as it takes: remove one of for and store")
	case a.Store != SameStore && a.Store != WipedStore && a.Store != OlderStore:
		return fmt.Errorf("with.store is %q: want same, wiped or older", a.Store)
	case h == nil:
		return errors.New("with.store: nobody can restart this server with other data: package gaplesstest can")
	}
	return nil
}
