package apiserver

import (
	"net/http"
	"net/url"

	"github.com/gapless-io/gapless/kube"
)

// historyHeader is sent by clients that detect when the server's data was replaced: with
// the value that the server last answered, or "?" before the first answer
// (docs/extensions.md).
const historyHeader = "Gapless-History"

// History tells the current history of the server's data from others.
type History interface {
	// ID identifies the current start of the server.
	ID() string
	// Since is the resource version at which it began.
	Since() kube.ResourceVersion
	// Holds reports whether rv, as a client got it from the start id, is in this history.
	Holds(id string, rv kube.ResourceVersion) bool
}

// compareHistory answers a client that names the start of the server that answered it last,
// and refuses a resource version of another history.
func (s *Server) compareHistory(w http.ResponseWriter, r *http.Request, q url.Values) error {
	known := r.Header.Get(historyHeader)
	if known == "" || s.cfg.History == nil || r.Method != http.MethodGet {
		return nil
	}
	w.Header().Set(historyHeader, s.cfg.History.ID())
	rv, err := kube.ParseResourceVersion(q.Get("resourceVersion"))
	if known == "?" || err != nil || rv == 0 || s.cfg.History.Holds(known, rv) {
		return nil //nolint:nilerr // the handler refuses a malformed resource version
	}
	return &kube.ExpiredError{Requested: rv, Oldest: s.cfg.History.Since(), Kind: kube.ExpiredWatch, Reason: kube.ReasonReplaced}
}
