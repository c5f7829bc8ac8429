// Package front is the HTTP side of a relay: it decides which of the relay's parts answers a request, and counts what
// is passed on to upstream for the limits of its client.
//
// The relay itself answers for its health, its metrics and its status. Lists and watches are read from the mirror if
// that serves them and their callers may be known; what it cannot answer after all goes to upstream as it came. So
// does everything else.
package front

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/relay"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/pass"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/status"
)

// Config has the parts of a relay. All but Tracing are required.
type Config struct {
	Relay     *relay.Relay
	Access    *access.Access
	API       *apiserver.Server
	Passing   *pass.Handler
	Documents *pass.Documents
	// Status returns what is encoded as JSON at status.RelayPath, with so many watches.
	Status func(watches int) (any, error)
	// Tracing records spans of requests; nil: none.
	Tracing *tracing.Provider
}

// Front answers the requests for a relay.
type Front struct {
	cfg       Config
	documents http.Handler
}

// New returns what answers requests by the parts of a relay.
func New(cfg Config) *Front {
	f := &Front{cfg: cfg}
	f.documents = f.passed(cfg.Documents)
	return f
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if isOwn(req.URL.Path) {
		f.cfg.API.ServeHTTP(w, req)
		return
	}
	reading, mirrored := f.cfg.Relay.Reading(req)
	switch {
	case mirrored && !f.cfg.Access.Anonymous(req): // upstream decides what it answers to nobody
		if age := f.cfg.Relay.Age(reading); age > 0 { // of what resourceVersion=0 gets
			w.Header().Set("Age", strconv.Itoa(int(age/time.Second)))
		}
		reading.Asked.Fallback = f.until(reading)
		f.cfg.API.ServeReading(w, req, reading.Route, &reading.Asked)
	case req.URL.Path == status.RelayPath:
		f.serveStatus(w, req)
	case pass.IsDocument(req):
		f.documents.ServeHTTP(w, req)
	default:
		f.passed(f.until(reading)).ServeHTTP(w, req)
	}
}

// Inside returns what answers requests of this process that have no credentials for upstream: what the mirror has, and
// the status. Everything else is 404.
func (f *Front) Inside() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		reading, mirrored := f.cfg.Relay.Reading(req)
		switch {
		case mirrored:
			f.cfg.API.ServeReading(w, req, reading.Route, &reading.Asked)
		case req.URL.Path == status.RelayPath:
			f.writeStatus(w, req, nil)
		default:
			http.NotFound(w, req)
		}
	})
}

// until passes a request on. A watch ends when upstream's history has become another one.
func (f *Front) until(reading relay.Reading) http.Handler {
	if reading.Replaced == nil {
		return f.cfg.Passing
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f.cfg.Passing.ServeWatch(w, req, pass.Ending{
			Ended: reading.Replaced, Why: func() error { return f.cfg.Relay.WhyReplaced(reading) },
		})
	})
}

// isOwn reports whether a path is about the relay itself: its health and its metrics.
func isOwn(path string) bool {
	switch path {
	case "/livez", "/readyz", "/healthz", "/metrics":
		return true
	}
	return false
}

// serveStatus answers what is mirrored.
func (f *Front) serveStatus(w http.ResponseWriter, req *http.Request) {
	caller, err := f.cfg.Access.Authenticate(req)
	if err == nil {
		err = f.mayAskStatus(req, caller)
	}
	f.writeStatus(w, req, err)
}

// writeStatus answers what is mirrored, unless err refuses that.
func (f *Front) writeStatus(w http.ResponseWriter, req *http.Request, err error) {
	var watches int
	if err == nil {
		watches, err = apiserver.StatusWatches(req)
	}
	var body []byte
	if err == nil {
		var state any
		if state, err = f.cfg.Status(watches); err == nil {
			body, err = json.MarshalIndent(state, "", "  ")
		}
	}
	if err != nil {
		refusal.Write(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// mayAskStatus returns nil if a caller may GET status.RelayPath. Upstream decides that. When it does not
// answer, and has not decided it before, members of system:masters may who come with a client certificate:
// an API server allows them everything, whatever its roles.
func (f *Front) mayAskStatus(req *http.Request, caller user.Info) error {
	err := f.cfg.Access.Authorize(req.Context(), caller, auth.Attributes{Verb: "get", Path: status.RelayPath})
	if err == nil || f.cfg.Relay.Away() == nil {
		return err
	}
	certified, unknown := f.cfg.Access.Certificate(req)
	if unknown != nil || certified == nil || !slices.Contains(certified.GetGroups(), user.SystemPrivilegedGroup) {
		return err
	}
	return nil
}
