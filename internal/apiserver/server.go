// Package apiserver is the HTTP door: it turns requests into verbs and their
// outcomes into answers.
//
// It has four nouns. A [Server] is the handler with its filters. A route is what
// a request's path and method mean. A rendering is the form that the client
// accepts (JSON, YAML, a Table, metadata only). A feed is one watch on its way
// to one client. Verbs behind the door are declared here as [Reader] and
// [Writer].
package apiserver

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Limits of what a client may send (kube-apiserver's defaults).
const (
	// MaxBodyBytes is the largest body: apiserver config.go MaxRequestBodyBytes.
	MaxBodyBytes = 3 << 20
	// defaultDeadline is how long a request that is not a watch may take:
	// apiserver config.go RequestTimeout.
	defaultDeadline = 60 * time.Second
	// answerWithin is how long writing an answer may take after that: a large list
	// needs its time on a slow line.
	answerWithin = 30 * time.Second
	// defaultMinRequestTimeout is half of the longest time that a watch without
	// timeoutSeconds may last: apiserver config.go MinRequestTimeout.
	defaultMinRequestTimeout = 1800 * time.Second
	// defaultMaxInFlight bounds requests that are not watches.
	defaultMaxInFlight = 3000
)

// Check is one line of /livez and /readyz.
type Check struct {
	Name  string
	Check func() error
	// ReadyOnly leaves the check out of /livez and /healthz.
	ReadyOnly bool
}

// Config is what a Server is made of. Reader, Writer and Live are required.
type Config struct {
	Reader Reader
	Writer Writer
	Live   *schema.Live
	// Checks besides "ping" and "shutdown", which every server has.
	Checks  []Check
	Version version.Info
	// Compact forgets history, for the administrator; nil answers 404.
	Compact func(ctx context.Context, c Compaction) (kube.ResourceVersion, error)
	// OpenAPI serves /openapi/v3; nil answers 404.
	OpenAPI http.Handler
	// Collectors add metrics of what lies behind the door.
	Collectors []prometheus.Collector
	// MinRequestTimeout: a watch without timeoutSeconds lasts between once and twice
	// as long; 0 is 30 minutes.
	MinRequestTimeout time.Duration
	// MaxInFlight bounds the requests that are no watches; 0 is 3000.
	MaxInFlight int
	Logger      *slog.Logger
}

// Server answers requests. Its methods are safe for concurrent use.
type Server struct {
	cfg       Config
	logger    *slog.Logger
	metrics   *metrics
	discovery discovery
	inFlight  atomic.Int64
	zipped    *blockzip.Cache // of lists

	open feeds

	// draining ends when Drain is called; watches end with it.
	draining context.Context //nolint:containedctx // it is a signal that lives as long as the server, not a call's context
	drain    context.CancelCauseFunc
}

// New returns a server; it starts no goroutine. ctx bounds its watches: they end
// as by Drain when it ends.
func New(ctx context.Context, cfg Config) *Server {
	cfg.MinRequestTimeout = cmp.Or(cfg.MinRequestTimeout, defaultMinRequestTimeout)
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, defaultMaxInFlight)
	s := &Server{cfg: cfg, logger: cfg.Logger, zipped: blockzip.NewCache(zippedBytes)}
	s.metrics = newMetrics(append(cfg.Collectors, s.zippedGauge()))
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.draining, s.drain = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, s.Drain)
	return s
}

// Drain ends every watch, after a last bookmark where one was asked for, refuses
// new watches with 503, and makes /readyz fail. It does not wait: Wait does. A
// client that takes nothing for three seconds is cut off.
func (s *Server) Drain() {
	s.drain(errDraining)
	// A write limit resets an HTTP/2 stream even when nothing is being written, and
	// one that has not spoken is to stay for quietWithin.
	s.open.limit(time.Now().Add(quietWithin + drainWithin))
}

// Wait blocks until no watch is open, after Drain, or returns ctx's cause. Watches
// of HTTP/1.1 have connections of their own, which http.Server does not know of.
func (s *Server) Wait(ctx context.Context) error { return s.open.wait(ctx) }

// route dispatches a request that was authenticated and authorized.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	if rt.Resource == nil {
		s.serveOther(w, r, rt)
		return
	}
	s.serveResource(w, r, rt)
}

func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, rt route) {
	var err error
	switch rt.verb {
	case verbGet:
		err = s.get(w, r, rt)
	case verbList:
		err = s.list(w, r, rt)
	case verbWatch: // admit has it
	case verbCreate, verbUpdate, verbPatch, verbDelete:
		err = s.write(w, r, rt)
	case verbDeleteCollection:
		err = s.deleteCollection(w, r, rt)
	case verbOther:
		err = kube.MethodNotAllowed(rt.Resource.GR(), r.Method)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}
