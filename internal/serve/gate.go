package serve

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/wire"
)

// Gate is in front of the API. Until it is opened it lets in only checks of health: a start can take
// long, and what asks whether the process lives must not end it because of that.
type Gate struct {
	API    http.Handler
	opened atomic.Bool
}

// Open lets all requests in from now on.
func (g *Gate) Open() { g.opened.Store(true) }

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if g.opened.Load() || isHealth(req.URL.Path) {
		g.API.ServeHTTP(w, req)
		return
	}
	// So that the next attempt reaches another server where a balancer distributes connections.
	w.Header().Set("Connection", "close") // of HTTP/2 net/http makes a GOAWAY
	refusal.Write(w, wire.Unavailable("the server is starting: /readyz says what it waits for", time.Second))
}

// Started is a check of health: nil when requests are let in.
func (g *Gate) Started() error {
	if g.opened.Load() {
		return nil
	}
	return errors.New("what a server has from the start is not all there yet")
}

// isHealth reports whether a path is one of checks of health.
func isHealth(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "livez", "readyz", "healthz":
		return true
	}
	return false
}
