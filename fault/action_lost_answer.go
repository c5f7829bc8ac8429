package fault

import (
	"fmt"
	"net/http"
)

// LostAnswer lets the server do what is asked for, and then ends the connection instead of
// answering.
type LostAnswer struct {
	// How is "clean", which is the default, or "reset", a TCP reset.
	How string `json:"how,omitzero"`
}

// Serve implements Action.
func (l *LostAnswer) Serve(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(newRecorder(), r)
	if l.How == "reset" {
		cut(r, Reset)
	}
	cut(r, Severed)
}

func (l *LostAnswer) check(*Rule, host) error {
	if l.How != "" && l.How != "clean" && l.How != "reset" {
		return fmt.Errorf("with.how is %q: want clean or reset", l.How)
	}
	return nil
}
