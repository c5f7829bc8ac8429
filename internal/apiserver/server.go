// Package apiserver is the HTTP handler: it turns requests into calls of the verbs, and
// their results into answers.
//
// A [Server] is the handler. [Reader] and [Writer] are the verbs that
// it calls. A request passes through these functions, one for each layer:
//
//	ServeHTTP     resolves the route
//	serve         runs watches where little of the stack is used
//	handle        authentication, authorization, metrics, panics
//	serveLimited  deadline, body, the limits of one client
//	dispatch      by verb; serveOther for paths that are about no resource
//	get, list, create, update, patch, delete, deleteCollection
//	              read the options and the body, call the verb, answer
//
// A watch goes from handle to openWatch, and from serve to feed.Set.Run. A list or a watch
// that somebody else has read already comes by ServeReading. Package route reads paths, media the
// types of content, render writes the answers.
//
// handle.go and limits.go have the order in which a request is checked, limited and served,
// and who is refused or slowed down; reading.go what a list or a watch asks for; warnings.go
// the Warning headers.
package apiserver

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/discovery"
	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/metrics"
	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/review"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/apiserver/swagger"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// Limits of what a client may send (kube-apiserver's defaults).
const (
	// defaultDeadline is how long a request that is not a watch may take:
	// apiserver config.go RequestTimeout.
	defaultDeadline = 60 * time.Second
	// answerWithin is how long writing an answer may take after that: a large list
	// takes long over a slow connection.
	answerWithin = 30 * time.Second
	// defaultMinRequestTimeout is half of the longest time that a watch without
	// timeoutSeconds may last: apiserver config.go MinRequestTimeout.
	defaultMinRequestTimeout = 1800 * time.Second
)

// Check is one line of /livez and /readyz.
type Check struct {
	Name  string
	Check func() error
	// ReadyOnly leaves the check out of /livez and /healthz.
	ReadyOnly bool
	// Boot leaves the check out of /livez: it fails until the server has started (upstream's
	// AddBootSequenceHealthChecks).
	Boot bool
	// Notice says that it only counts where it is asked for by its name: /readyz names it, and does not fail.
	Notice bool
	// Live, if not nil, is what /livez and /healthz check instead: it fails if a restart may help.
	Live func() error
}

// Config configures a Server. Reader, Writer and Live are required.
type Config struct {
	Reader Reader
	Writer Writer
	Live   *kinds.Live
	// Count returns about how many objects a list of a target has, at once; nil: all lists
	// count as one request.
	Count func(t kinds.Target) int
	// Authenticator identifies callers; nil: by client certificates. Authorizer says what
	// they may do; nil: members of system:masters may do everything, others nothing.
	Authenticator auth.Authenticator
	Authorizer    auth.Authorizer
	// DecideWithin bounds what the Authorizer is asked about a request that impersonates a user, which is several
	// questions: the answer is 503 then. 0: nothing does but the Authorizer.
	DecideWithin time.Duration
	// FrontProxy says that the Authenticator knows what to do with headers that name a user; without it they are refused.
	FrontProxy bool
	// PrivateHealth makes health checks and the version need credentials and a permission.
	PrivateHealth bool
	// Tokens answers reviews and requests of tokens; nil: there are none.
	Tokens review.Tokens
	// Ask asks admission plugins about a request for a token, which they may change, and returns their warnings; nil:
	// nobody is asked.
	Ask func(ctx context.Context, t kinds.Target, sent *unstructured.Unstructured, o metav1.CreateOptions) ([]string, error)
	// Discovery serves the documents of the issuer of tokens; nil answers 404.
	Discovery http.Handler
	// Aggregator knows what other servers serve; nil: nothing.
	Aggregator *aggregator.Aggregator
	// Checks besides "ping" and "shutdown", which every server has.
	Checks  []Check
	Version version.Info
	// Compact removes history, for an administrator; nil answers 404.
	Compact func(ctx context.Context, c Compaction) (Compacted, error)
	// Backup writes a backup, for an administrator; nil answers 404.
	Backup func(ctx context.Context, b Backup, to io.Writer) error
	// Status returns the state of the server with so many watches, as what is encoded to JSON; nil answers 404.
	Status func(ctx context.Context, watches int) (any, error)
	// History tells clients that ask whether the data was replaced; nil: the server does
	// not answer them.
	History History
	// Collectors add metrics of other parts.
	Collectors []prometheus.Collector
	// MinRequestTimeout: a watch without timeoutSeconds lasts between once and twice
	// as long; 0 is 30 minutes.
	MinRequestTimeout time.Duration
	// Limits bound the requests that are under way; zeros are defaults.
	Limits limit.Requests
	// Faults serves /faults, where an administrator makes requests fail; nil answers 404.
	Faults http.Handler
	// TestCalls serves what else tests do to the server, below /gapless/v1/test/; nil answers 404.
	TestCalls http.Handler
	// Audit records requests; nil: there is no audit log.
	Audit *audit.Log
	// Tracing records spans of requests; nil: none.
	Tracing *tracing.Provider
	// Refusals count refused requests; nil: the server has a counter of its own.
	Refusals *limit.Refusals
	Logger   *slog.Logger
}

// Server answers requests. Its methods are safe for concurrent use.
type Server struct {
	cfg       Config
	logger    *slog.Logger
	metrics   *metrics.Metrics
	discovery discovery.Documents
	swagger   *swagger.Documents
	groups    *swagger.Groups
	load      *limit.Load
	lists     *render.Lists
	events    render.Shared
	feeds     *feed.Set
	// impersonation knows as which users callers may run their requests.
	impersonation *authn.Impersonation
}

// New returns a server; it starts no goroutine. ctx bounds its watches: they end
// as by Drain when it ends.
func New(ctx context.Context, cfg Config) *Server {
	cfg.MinRequestTimeout = cmp.Or(cfg.MinRequestTimeout, defaultMinRequestTimeout)
	if cfg.Authenticator == nil {
		cfg.Authenticator = auth.Certificates{}
	}
	if cfg.Authorizer == nil {
		cfg.Authorizer = auth.MastersOnly{}
	}
	if cfg.Refusals == nil {
		cfg.Refusals = limit.NewRefusals()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, logger: cfg.Logger, load: limit.NewLoad(cfg.Limits, cfg.Refusals), lists: render.NewLists(),
		swagger: swagger.New(), groups: swagger.NewGroups(cfg.Live),
		feeds: feed.NewSet(ctx, cfg.Logger), impersonation: authn.NewImpersonation(cfg.Authorizer),
	}
	kept := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gapless_list_compressed_bytes", Help: "Compressed blocks of lists that are kept for the next list.",
	}, func() float64 { return float64(s.lists.CacheBytes()) })
	messages := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gapless_protobuf_kept_bytes", Help: "Messages in protobuf and their objects that are kept for the next watch.",
	}, func() float64 { return float64(s.events.MessageBytes()) })
	more := append(cfg.Collectors, kept, messages, cfg.Refusals, s.load, cfg.Tracing, s.impersonation)
	if cfg.Audit != nil {
		more = append(more, cfg.Audit)
	}
	s.metrics = metrics.New(cfg.Live, more)
	return s
}

// Describe sends what each of the metrics is that the server answers scrapes with.
func (s *Server) Describe(to chan<- *prometheus.Desc) { s.metrics.Describe(to) }

// Watches returns the watches that are open, the oldest first.
func (s *Server) Watches() []feed.Open { return s.feeds.Open() }

// Expired returns the last watches that got 410, the oldest first.
func (s *Server) Expired() []feed.Expired { return s.feeds.Expired() }

// Sent returns how many bytes the lists and watches of each resource have had so far.
func (s *Server) Sent() (map[kinds.GroupVersionResource]int64, error) { return s.metrics.Sent() }

// Drain ends every watch, after a last bookmark if the client requested bookmarks, refuses
// new watches with 503, and makes /readyz fail. It does not wait: Wait does. A
// client that reads nothing for three seconds is cut off.
func (s *Server) Drain() { s.feeds.Drain() }

// Wait blocks until no watch is open, after Drain, or returns ctx's cause. Watches
// of HTTP/1.1 have connections of their own, which http.Server does not know of.
func (s *Server) Wait(ctx context.Context) error { return s.feeds.Wait(ctx) }

// dispatch serves a request by its verb.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, q resolved) error {
	rt := q.Route
	if rt.Resource == nil {
		return s.serveOther(w, r, rt)
	}
	switch rt.Verb {
	case route.Get:
		return s.get(w, r, q)
	case route.List:
		return s.list(w, r, q)
	case route.Create:
		return s.create(w, r, rt)
	case route.Update:
		return s.update(w, r, rt)
	case route.Patch:
		return s.patch(w, r, rt)
	case route.Delete:
		return s.delete(w, r, rt)
	case route.DeleteCollection:
		return s.deleteCollection(w, r, rt)
	case route.Watch: // handle opens it
	case route.Other:
	}
	return wire.MethodNotAllowed(rt.Resource.GR(), r.Method)
}
