package apiserver

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver/route"
)

// health answers /livez, /readyz, /healthz and their single checks in upstream's
// text form. Only callers with credentials get the reason why a check failed;
// upstream withholds it from all.
func (s *Server) health(w http.ResponseWriter, r *http.Request, rt route.Route) {
	endpoint, one := rt.Path[0], strings.Join(rt.Path[1:], "/")
	checks := s.checks(endpoint) //nolint:contextcheck // the check of a shutdown is about the server's context
	q := r.URL.Query()
	var lines strings.Builder
	failed, found := 0, false
	known := s.isKnown(r, rt)
	for _, c := range checks {
		if one != "" && c.Name != one {
			continue
		}
		found = true
		if slices.Contains(q["exclude"], c.Name) {
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if err := c.Check(); err != nil {
			failed++
			// Upstream's text, for callers without credentials.
			reason := "reason withheld"
			if known {
				reason = strings.ReplaceAll(err.Error(), "\n", "; ") // a check is a line
			}
			if c.Notice && one == "" {
				failed--
				fmt.Fprintf(&lines, "[-]%s failed, which does not count: %s\n", c.Name, reason)
				continue
			}
			fmt.Fprintf(&lines, "[-]%s failed: %s\n", c.Name, reason)
			s.logger.WarnContext(r.Context(), "health check failed", slog.String("check", c.Name), slog.Any("error", err))
			continue
		}
		fmt.Fprintf(&lines, "[+]%s ok\n", c.Name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case one != "" && !found:
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	case failed > 0:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(&lines, "%s check failed\n", endpoint)
	case q.Has("verbose"):
		fmt.Fprintf(&lines, "%s check passed\n", endpoint)
	default:
		lines.Reset()
		lines.WriteString("ok")
	}
	_, _ = io.WriteString(w, lines.String()) // the client has left
}

// isKnown reports whether the caller has credentials. It may have been asked before: who is known by
// a token is known once only, since that removes the token from the request.
func (s *Server) isKnown(r *http.Request, rt route.Route) bool {
	if rt.Caller == nil {
		caller, err := s.cfg.Authenticator.Authenticate(r)
		if err != nil {
			return false
		}
		rt.Caller = caller
	}
	return slices.Contains(rt.Caller.GetGroups(), user.AllAuthenticated)
}

// checks returns the checks of an endpoint; every server has "ping" and "shutdown".
func (s *Server) checks(endpoint string) []Check {
	checks := []Check{{Name: "ping", Check: func() error { return nil }}}
	for _, c := range s.cfg.Checks {
		switch {
		case endpoint == "readyz", c.Boot && endpoint == "healthz":
		case c.ReadyOnly, c.Boot:
			continue
		case c.Live != nil:
			c.Check = c.Live
		}
		checks = append(checks, c)
	}
	if endpoint == "readyz" {
		checks = append(checks, Check{Name: "shutdown", Check: s.feeds.Draining().Err})
	}
	return checks
}
