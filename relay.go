package gapless

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/dashboard/port"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/relay"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/front"
	"github.com/gapless-io/gapless/internal/relay/pass"
	"github.com/gapless-io/gapless/internal/scratch"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/status"
)

// RelayConfig is the configuration of a Relay. Upstream is required, and DataDir unless Memory
// is set. docs/relay.md explains what each costs and guarantees.
type RelayConfig struct {
	// Upstream is the API server, with the relay's own credentials. They must allow what
	// "gapless relay manifests" prints.
	Upstream *rest.Config
	// DataDir holds the history, the serving certificate and its CA.
	DataDir string
	// Memory keeps the history in memory only; without DataDir no files are left behind.
	Memory bool
	// Listen is the address, "host:port"; port 0 picks a free one. The default is
	// DefaultRelayListen. Listener, if not nil, is used in its place; Run closes it.
	Listen   string
	Listener net.Listener
	// DashboardListen is the address of the dashboard, as that of Config.
	DashboardListen string
	// TLSCertFile and TLSPrivateKeyFile are a serving certificate and its key, besides the
	// relay's own.
	TLSCertFile, TLSPrivateKeyFile string
	// History and HistoryBytes bound the history, as those of Config.
	History      time.Duration
	HistoryBytes int64
	// Resources are mirrored from the start: "pods", "deployments.apps", "deployments.v1.apps",
	// "*.example.com" or "*". Others are mirrored from their first reader on, until nobody has
	// read them for Idle (10 min).
	Resources []string
	Idle      time.Duration
	// Shards, if not 0, is the number of relays that share the resources, and Shard, from 0, which of
	// them this one is: it passes through the resources of the others.
	Shard, Shards int
	// MirrorSecrets mirrors Secrets too; otherwise they are passed through. Unless Memory is set it
	// needs SecretsKey, of 32 bytes, with which they are encrypted on the disk.
	MirrorSecrets bool
	SecretsKey    []byte
	// CompressUpstream asks upstream to compress the lists that are mirrored: for a slow network.
	CompressUpstream bool
	// ServeStale serves lists of the most recent state, and watches that begin with it, also when upstream
	// cannot be asked what that is: the mirror's newest state, with a Warning header that says how old it
	// is. Otherwise they are 503 then, and only resourceVersion=0 is served.
	ServeStale bool
	// TracingConfigFile is a file with a TracingConfiguration of apiserver.config.k8s.io/v1: where spans of requests are
	// sent; "": nowhere. It is read at the start.
	TracingConfigFile string
	// Access says how callers are known.
	Access RelayAccess
	Limits Limits
	Logger *slog.Logger // nil: none
}

// RelayAccess says how a relay knows its callers, and what they may read.
type RelayAccess struct {
	// Passthrough asks upstream with the callers' own credentials, by a small request, instead
	// of TokenReview and SubjectAccessReview. Only bearer tokens work then.
	Passthrough bool
	// ClientCAFile has upstream's CAs of client certificates; "": they are read from the
	// ConfigMap extension-apiserver-authentication in kube-system.
	ClientCAFile string
	// Allowed and Denied are how long such decisions are used without asking again, and Stale
	// how long when upstream cannot be reached. 0 is 10 s, 10 s and 5 min; negative: not at all.
	Allowed, Denied, Stale time.Duration
	// FrontProxyCertFile and FrontProxyKeyFile are a client certificate that upstream trusts to
	// name users (--requestheader-client-ca-file). Without it callers with certificates are
	// passed on by impersonation.
	FrontProxyCertFile, FrontProxyKeyFile string
}

// DefaultRelayListen is the address of a relay.
const DefaultRelayListen = "127.0.0.1:8443"

// Relay mirrors an API server, and serves its lists and watches with hours of history. All
// methods are safe for concurrent use.
type Relay struct {
	cfg   RelayConfig
	ready chan struct{} // closed once it serves

	// Set before ready is closed, and not changed after.
	listener    net.Listener
	credentials *auth.Credentials
	mirror      *mirror.Mirror
	relay       *relay.Relay
	access      *access.Access
	clientCA    *access.ClientCA // nil: certificates do not count
	api         *apiserver.Server
	passing     *pass.Handler
	documents   *pass.Documents
	refusals    *limit.Refusals
	started     time.Time
	tracing     *tracing.Provider // nil: none
	front       *front.Front
	page        *port.Port // the dashboard; nil: none
}

// NewRelay validates the configuration and returns a relay. It opens no files, sends nothing and
// starts no goroutines.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	if cfg.Upstream == nil {
		return nil, errors.New("a relay needs an API server to mirror")
	}
	if cfg.DataDir == "" && !cfg.Memory {
		return nil, errors.New("a relay needs a data directory for its history")
	}
	if (cfg.TLSCertFile == "") != (cfg.TLSPrivateKeyFile == "") {
		return nil, errors.New("a serving certificate needs both TLSCertFile and TLSPrivateKeyFile")
	}
	if (cfg.Access.FrontProxyCertFile == "") != (cfg.Access.FrontProxyKeyFile == "") {
		return nil, errors.New("a front proxy needs both a certificate and its key")
	}
	if cfg.MirrorSecrets && !cfg.Memory && len(cfg.SecretsKey) != mirror.KeyBytes {
		return nil, fmt.Errorf("to mirror Secrets to the disk a key of %d bytes is needed to encrypt them, not one of %d",
			mirror.KeyBytes, len(cfg.SecretsKey))
	}
	if cfg.Shards < 0 || cfg.Shards > 0 && (cfg.Shard < 0 || cfg.Shard >= cfg.Shards) {
		return nil, fmt.Errorf("shard %d of %d: want one from 0 to the number of shards less one", cfg.Shard, cfg.Shards)
	}
	if cfg.Listen == "" {
		cfg.Listen = DefaultRelayListen
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if cfg.History, cfg.HistoryBytes, err = historyBounds(cfg.History, cfg.HistoryBytes, cfg.Memory); err != nil {
		return nil, err
	}
	if cfg.Limits, err = cfg.Limits.withDefaults(); err != nil {
		return nil, err
	}
	if err := port.Check(cfg.DashboardListen); err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, ready: make(chan struct{})}, nil
}

// Run serves until ctx ends, and then drains as a Server does. It must be called once. It returns
// nil after ctx ended, and an error if the relay failed.
func (r *Relay) Run(ctx context.Context) (err error) {
	traces, err := tracing.Read(r.cfg.TracingConfigFile)
	if err != nil {
		return err
	}
	dir := r.cfg.DataDir
	if dir == "" {
		own, making := scratch.Make("relay")
		if making != nil {
			return making
		}
		defer func() { err = errors.Join(err, own.Remove()) }()
		dir = own.Path()
	} else if err := errors.Join(serve.CheckRelayDir(dir), serve.CheckPermissions(ctx, dir, r.cfg.Logger)); err != nil {
		return err
	}
	if r.listener, err = serve.Listen(ctx, r.cfg.Listener, r.cfg.Listen); err != nil {
		return err
	}
	defer func() {
		if closing := r.listener.Close(); closing != nil && !errors.Is(closing, net.ErrClosed) {
			err = errors.Join(err, closing)
		}
	}()
	if r.page, err = port.Listen(ctx, r.cfg.DashboardListen, status.RelayPath); err != nil {
		return err
	}
	defer r.page.Close()
	r.credentials, err = auth.Open(dir, auth.Options{
		Hosts: append(serve.CertificateHosts(r.cfg.Listen), port.CertificateHosts(r.cfg.DashboardListen)...),
		Files: auth.Files{Cert: r.cfg.TLSCertFile, Key: r.cfg.TLSPrivateKeyFile},
	})
	if err != nil {
		return err
	}
	r.mirror, err = mirror.Open(ctx, mirror.Options{
		Dir: filepath.Join(dir, serve.MirrorDir), Memory: r.cfg.Memory, Logger: r.cfg.Logger,
		History: max(r.cfg.History, 0), HistoryBytes: max(r.cfg.HistoryBytes, 0),
		Key: r.cfg.SecretsKey, Sealed: func(name string) bool { return name == "secrets.v1" },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.mirror.Close()) }()
	r.tracing = tracing.New(traces, "gapless-relay", r.url(), r.cfg.Logger)
	return r.serve(ctx)
}

// serve runs the mirror and the HTTP server, and stops them in reverse order.
func (r *Relay) serve(ctx context.Context) error {
	lasting := context.WithoutCancel(ctx)
	handler, err := r.handler(lasting)
	if err != nil {
		return err
	}
	below, stopBelow := context.WithCancel(lasting)
	defer stopBelow()
	g, running := errgroup.WithContext(below)
	g.Go(func() error { return r.mirror.Run(running) })
	g.Go(func() error { return r.tracing.Run(running) })
	g.Go(func() error { return r.relay.Run(running) })
	g.Go(func() error { return r.access.Run(running) })
	g.Go(func() error { return r.documents.Run(running) })
	g.Go(func() error { return r.credentials.Run(running, r.cfg.Logger) })
	if r.clientCA != nil {
		g.Go(func() error { return r.clientCA.Run(running) })
	}
	web := r.webServer(running, handler)
	g.Go(func() error { return r.page.Run(running, ctx.Done(), r.pages()) })
	g.Go(func() error {
		// Clients that come at once would be passed through, and stay at upstream.
		within := discoverWithin
		if len(r.relay.Live().Load().Resources()) > 0 { // from before
			within = time.Second
		}
		timer := time.NewTimer(within)
		defer timer.Stop()
		select {
		case <-r.relay.Asked():
		case <-timer.C:
		case <-running.Done():
		}
		r.cfg.Logger.InfoContext(ctx, "serving", slog.String("url", r.url()), slog.String("upstream", r.cfg.Upstream.Host))
		close(r.ready)
		listener := limit.NewListener(r.listener, r.cfg.Limits.bounds(), r.refusals)
		if err := web.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
		defer stopBelow()
		r.cfg.Logger.InfoContext(ctx, "draining")
		return r.drain(lasting, web)
	})
	return g.Wait()
}

// drain ends watches, those that are passed on too, and then lets the requests in progress finish, and
// closes all connections. Until the watches have ended, new connections are taken.
func (r *Relay) drain(ctx context.Context, web *http.Server) error {
	r.api.Drain()
	r.passing.Drain()
	limited, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	watches, cancelWatches := context.WithTimeout(limited, watchesWithin)
	defer cancelWatches()
	_ = errors.Join(r.passing.Wait(watches), r.api.Wait(watches)) // who does not read is waited for below
	if err := errors.Join(web.Shutdown(limited), r.api.Wait(limited)); err != nil {
		r.cfg.Logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
		return web.Close()
	}
	return nil
}

// watchesWithin is how long a relay that stops takes new connections while watches end.
const watchesWithin = time.Second

// discoverWithin is how long the relay waits for upstream's resources before it serves.
const discoverWithin = 10 * time.Second

// webServer returns the HTTP server. Bodies and answers may take hours: they are upstream's.
func (r *Relay) webServer(ctx context.Context, handler http.Handler) *http.Server {
	streams := r.cfg.Limits.StreamsPerConnection
	web := serve.WebServer(handler, r.handshake, streams, r.cfg.Logger) //nolint:contextcheck // a handshake has a context of its own
	web.BaseContext = func(net.Listener) context.Context { return ctx } // upgraded connections end with it
	return web
}

// handshake returns the configuration of a handshake.
func (r *Relay) handshake() *tls.Config {
	if r.clientCA != nil {
		return r.clientCA.Config(r.credentials.ServerTLS())
	}
	return r.credentials.ServerTLS()
}

// handler makes the parts of the relay, and what decides which of them answers a request.
func (r *Relay) handler(ctx context.Context) (http.Handler, error) {
	var err error
	if r.access, err = r.newAccess(ctx); err != nil {
		return nil, err
	}
	if r.relay, err = relay.New(relay.Config{
		Upstream: r.cfg.Upstream, Mirror: r.mirror, Resources: r.cfg.Resources, Idle: r.cfg.Idle,
		Shard: r.cfg.Shard, Shards: r.cfg.Shards, MirrorSecrets: r.cfg.MirrorSecrets, Compress: r.cfg.CompressUpstream,
		Grant: r.grant, Kept: r.kept("resources"), ServeStale: r.cfg.ServeStale, Logger: r.cfg.Logger,
	}); err != nil {
		return nil, err
	}
	r.restored(ctx, r.access.Restore(), r.relay.Restore())
	through := pass.Config{
		Upstream: r.cfg.Upstream, Certificate: r.access.Certificate, Answered: front.Heard(r.access), Logger: r.cfg.Logger,
	}
	if r.cfg.Access.FrontProxyCertFile != "" {
		through.FrontProxy = &pass.FrontProxy{CertFile: r.cfg.Access.FrontProxyCertFile, KeyFile: r.cfg.Access.FrontProxyKeyFile}
	}
	if r.passing, err = pass.New(through); err != nil {
		return nil, err
	}
	r.refusals, r.started = limit.NewRefusals(), time.Now()
	r.api = apiserver.New(ctx, apiserver.Config{
		Reader: r.relay.Reader(), Live: r.relay.Live(), Count: r.relay.Count, Logger: r.cfg.Logger,
		Authenticator: r.page.Reader().Authenticator(r.access), Authorizer: r.page.Reader().Authorizer(r.access),
		DecideWithin: access.AskWithin, Version: Version(), Limits: r.cfg.Limits.requests(), Refusals: r.refusals,
		Checks: []apiserver.Check{
			{Name: "storage-durable", Check: r.mirror.Durable},
			{Name: "storage-writes", Check: r.mirror.Writable, ReadyOnly: true},
			{Name: "mirror-sync", Check: r.relay.Ready, ReadyOnly: true},
		},
		Collectors: []prometheus.Collector{
			r.relay.Collector(), r.access, serve.NewLogGauges(r.mirror, "mirror"),
			serve.NewWatches(func() []feed.Open { return r.api.Watches() }, nil),
		}, Tracing: r.tracing,
	})
	r.documents = pass.NewDocuments(r.passing, r.access.Known)
	r.restored(ctx, r.documents.Keep(r.kept("documents")))
	r.front = front.New(front.Config{
		Relay: r.relay, Access: r.access, API: r.api, Passing: r.passing, Documents: r.documents,
		Status: func(watches int) (any, error) { return r.status(watches) }, Tracing: r.tracing,
	})
	return r.front, nil
}

func (r *Relay) newAccess(ctx context.Context) (*access.Access, error) {
	of := r.cfg.Access
	cfg := access.Config{
		Mode: access.Reviews, Upstream: r.cfg.Upstream, Logger: r.cfg.Logger,
		Kept: r.kept("decisions"), Allowed: lasting(of.Allowed, access.DefaultCache),
		Denied: lasting(of.Denied, access.DefaultCache), Stale: lasting(of.Stale, access.DefaultStale),
	}
	if of.Passthrough {
		cfg.Mode = access.Passthrough
		return access.New(cfg)
	}
	var err error
	if of.ClientCAFile != "" {
		r.clientCA = access.ClientCAFromFile(of.ClientCAFile, r.cfg.Logger)
	} else if r.clientCA, err = access.ClientCAFromUpstream(r.cfg.Upstream, r.cfg.Logger); err != nil {
		return nil, err
	}
	if of.ClientCAFile == "" {
		r.restored(ctx, r.clientCA.Keep(r.kept("client-ca")))
	}
	if _, err := r.clientCA.Load(ctx); err != nil {
		switch {
		case of.ClientCAFile != "":
			return nil, err
		case r.clientCA.Known():
			r.cfg.Logger.WarnContext(ctx, "upstream's CA of client certificates is the one from before", slog.Any("error", err))
		default:
			r.cfg.Logger.WarnContext(ctx, "upstream's CA of client certificates is not known yet: only tokens count",
				slog.Any("error", err))
		}
	}
	cfg.Trusted = r.clientCA.Trusted
	return access.New(cfg)
}

// grant returns the permission of a watch.
func (r *Relay) grant(u user.Info, a auth.Attributes) (relay.Grant, error) {
	return r.access.Grant(u, a)
}

// lasting is a time of the configuration: 0 is the usual one, and a negative one none.
func lasting(d, usual time.Duration) time.Duration {
	switch {
	case d == 0:
		return usual
	case d < 0:
		return 0
	}
	return d
}

// Ready returns a channel that is closed once the relay accepts requests. What upstream has may
// not have been read by then: /readyz says when.
func (r *Relay) Ready() <-chan struct{} { return r.ready }

// URL returns the URL of the relay. It blocks until the relay is ready.
func (r *Relay) URL() string {
	<-r.ready
	return r.url()
}

func (r *Relay) url() string { return serve.URL(r.listener) }

// CA returns the certificates, as PEM, by which clients know the relay. It blocks until the relay
// is ready.
func (r *Relay) CA() []byte {
	<-r.ready
	return r.credentials.CA()
}
