package gapless

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/catalog"
	"github.com/gapless-io/gapless/internal/admission/plugins/quotas"
	"github.com/gapless-io/gapless/internal/admission/policy"
	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/auth/chain"
	"github.com/gapless-io/gapless/internal/auth/external"
	"github.com/gapless-io/gapless/internal/auth/nodes"
	"github.com/gapless-io/gapless/internal/auth/rbac"
	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/dashboard/port"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/scratch"
	"github.com/gapless-io/gapless/internal/seam"
	"github.com/gapless-io/gapless/internal/seed/manifest"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/starts"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/failing"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// drainWithin is how long requests in flight may take once the server stops.
const drainWithin = 10 * time.Second

// Server is a Kubernetes-compatible API server. All methods are safe for
// concurrent use.
type Server struct {
	called // what tests of this module do to it; see package seam

	cfg   Config
	ready chan struct{} // closed once it serves
	busy  *serve.Busy   // connections, with StopAtOnce

	// Set before ready is closed, and not changed after.
	credentials *auth.Credentials
	listener    net.Listener
	kubeconfig  string
	tokens      *authn.Tokens // of Config.Authentication.TokenAuthFile; nil: none
	registry    *registry.Registry
	live        *kinds.Live
	api         *apiserver.Server
	gate        *serve.Gate      // in front of api
	faulty      *fault.Handler   // the rules in front of the gate; nil without faults
	external    *external.Tokens // nil: none
	authorizer  auth.Authorizer
	chain       *chain.Chain           // that is the authorizer; nil: it is another
	roles       *rbac.Authorizer       // that the chain may ask; nil without a chain
	kubelets    *nodes.Authorizer      // that the chain may ask; nil without a chain
	cluster     *cluster               // the registry, for those that are made before it
	plugins     []plugins.Plugin       // those of kube-apiserver that are on, as they are configured
	tables      []registry.Follower    // what plugins look up
	policies    *policy.Plugin         // of admission
	webhooks    *webhook.Plugin        // of admission
	shown       webhook.Shown          // credentials of admission
	asked       *plugins.Set           // of plugins
	reloads     []prometheus.Collector // of files of configuration
	quotas      *quotas.Plugin         // of admission; the controller of quotas shares what it knows
	backend     *backend
	behind      *aggregator.Aggregator
	managed     *managed             // nil: nothing is left to a kube-controller-manager
	history     *starts.History      // nil: another replica, of another history, may have answered before
	addresses   *addresses.Allocator // of Services
	manifests   *manifest.Files
	applied     Applied
	page        *port.Port // the dashboard; nil: none
	auditPolicy *audit.Policy
	traces      *tracing.Configuration // nil: none
	tracing     *tracing.Provider      // nil: none
}

// New validates the configuration and returns a server. It opens no files and starts no
// goroutines.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ready: make(chan struct{}), busy: serve.NewBusy(), gate: &serve.Gate{}}
	s.called = seam.NewCalled(calls{s})
	return s, nil
}

// Run opens the data, serves until ctx ends, and then drains: watches get a last
// bookmark and end, requests in flight finish (within 10 s), and the log is closed. It
// must be called once. It returns nil after ctx ended, and an error if the server
// failed.
func (s *Server) Run(ctx context.Context) (err error) {
	if err := errors.Join(s.findManifests(), s.loadAuditPolicy(), s.choosePlugins()); err != nil {
		return err
	}
	if err := errors.Join(s.readAuthentication(), s.readAuthorization(), s.readTracing()); err != nil {
		return err
	}
	if s.cfg.DataDir == "" {
		dir, making := scratch.Make("server")
		if making != nil {
			return making
		}
		defer func() { err = errors.Join(err, dir.Remove()) }()
		s.cfg.DataDir = dir.Path()
	} else if err := s.check(ctx); err != nil {
		return err
	}
	made, err := serve.Missing(s.cfg.DataDir)
	if err != nil {
		return err
	}
	if s.listener, err = serve.Listen(ctx, s.cfg.Listener, s.cfg.Listen); err != nil {
		return err
	}
	if s.page, err = port.Listen(ctx, s.cfg.DashboardListen, s.shownPaths()...); err != nil {
		return errors.Join(err, s.closeListener())
	}
	defer s.page.Close()
	if err := s.open(ctx); err != nil {
		serve.RemoveEmpty(made)
		return errors.Join(err, s.closeListener())
	}
	defer func() { err = errors.Join(err, s.backend.close()) }()
	return s.serve(ctx)
}

// check returns an error for a data directory that the server cannot use, before it
// creates files there.
func (s *Server) check(ctx context.Context) error {
	if err := serve.CheckServerDir(s.cfg.DataDir, s.cfg.Etcd.used()); err != nil {
		return err
	}
	if err := serve.CheckPermissions(ctx, s.cfg.DataDir, s.cfg.Logger); err != nil {
		return err
	}
	return auth.Check(s.cfg.DataDir)
}

// open opens the credentials and what holds the objects. After an error neither is open.
func (s *Server) open(ctx context.Context) error {
	s.live = kinds.NewLive(builtin.Catalog())
	var err error
	if s.cfg.Etcd.used() {
		s.backend, err = s.openReplica(ctx)
	} else {
		s.backend, err = s.openLog(ctx)
	}
	if err != nil {
		return err
	}
	certificates := auth.Options{
		Hosts:     append(serve.CertificateHosts(s.cfg.Listen), port.CertificateHosts(s.cfg.DashboardListen)...),
		ClientKey: auth.KeyAlgorithm(s.cfg.ClientKeyAlgorithm),
		Files:     s.cfg.Authentication.files(),
	}
	if s.credentials, err = auth.Open(s.cfg.DataDir, certificates); err == nil {
		s.kubeconfig, err = s.credentials.WriteKubeconfig(s.url())
	}
	if err == nil {
		err = s.openHistory()
	}
	if err != nil {
		return errors.Join(err, s.backend.close())
	}
	return nil
}

// runBelow runs what requests need.
func (s *Server) runBelow(ctx context.Context, g *errgroup.Group) {
	for _, run := range s.backend.run {
		g.Go(func() error { return run(ctx) })
	}
	g.Go(func() error { return s.registry.Run(failing.By(ctx, NamespaceController)) })
	g.Go(func() error { return s.credentials.Run(ctx, s.cfg.Logger) })
	g.Go(func() error { return s.tracing.Run(ctx) })
}

// serve runs the store, the registry and the HTTP server, and stops them in reverse
// order.
func (s *Server) serve(ctx context.Context) error {
	live := s.live
	own := s.newRegistry(live)
	defer s.webhooks.Close()
	callers, callersErr := s.callers(ctx)
	err := s.bootstrappers(live, &own)
	audited, auditErr := s.openAudit()
	if err := errors.Join(callersErr, err, auditErr); err != nil {
		return errors.Join(err, s.closeListener())
	}
	lasting := context.WithoutCancel(ctx)
	below, stopBelow := context.WithCancel(lasting)
	defer stopBelow()
	g, running := errgroup.WithContext(below)
	s.tracing = tracing.New(s.traces, "gapless", s.url(), s.cfg.Logger)
	s.runBelow(running, g)
	if err := s.runAccess(running, g); err != nil {
		stopBelow()
		return errors.Join(err, g.Wait(), s.closeListener())
	}
	s.runBackground(running, g, own)
	runAudit(running, g, audited)
	refusals := limit.NewRefusals()
	measured := append(slices.Concat(s.backend.metrics, catalog.Collectors(s.plugins)),
		serve.NewGauges(s.registry, s.backend.log, s.backend.name),
		s.registry.Conversions(), s.policies, s.webhooks, s.asked, s.quotas, s.addresses, s.behind,
		serve.NewWatches(func() []feed.Open { return s.api.Watches() }, s.registry.Behind))
	measured = append(measured, s.reloads...)
	api := apiserver.New(lasting, s.apiConfig(live, parts{callers, refusals, audited, collectors(own, measured...)}))
	s.api = api
	web := s.webServer(api) //nolint:contextcheck // a handshake has a context of its own
	listener := limit.NewListener(s.withFaults(web), s.cfg.Limits.bounds(), refusals)
	g.Go(func() error {
		if err := web.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error { return s.start(ctx, running, own.objects, live) })
	g.Go(func() error { return s.page.Run(running, ctx.Done(), s.pages(refusals)) })
	// The drain stops everything in order when ctx ends or a part fails.
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
		defer stopBelow()
		s.cfg.Logger.InfoContext(ctx, "draining")
		return s.drain(lasting, api, web)
	})
	return g.Wait()
}

// bootstrappers makes the controllers of the bootstrap objects that are configured.
func (s *Server) bootstrappers(live *kinds.Live, to *background) error {
	if s.cfg.Bootstrap == BootstrapNone {
		return nil
	}
	address, err := serve.Reachable(s.listener.Addr())
	if err != nil {
		return err
	}
	ranges, err := s.cfg.clusterIPRanges()
	if err != nil {
		return err
	}
	cfg := bootstrap.Config{
		Verbs: s.registry, Live: live, Address: address, Logger: s.cfg.Logger, ServiceIP: s.addresses.First,
		ServiceRanges: ranges,
	}
	// Tests of clients, and suites, count on ConfigMaps that are their own, where nobody has given a CA.
	a := s.cfg.Authentication
	if s.cfg.Bootstrap != BootstrapServer || a.ClientCAFile != "" || a.FrontProxy.ClientCAFile != "" {
		cfg.Trust = s.trust
	}
	if s.cfg.Etcd.used() {
		cfg.Flows = bootstrap.FlowsShared
		cfg.Others = s.backend.apiServers
	}
	if address.Addr().Is6() != ranges[0].Addr().Is6() {
		if cfg.Others == nil { // upstream's text
			return fmt.Errorf("service IP family %q must match public address family %q: name a range of the family of "+
				"--listen first (--service-cluster-ip-range)", ranges[0], address.Addr())
		}
		cfg.Address = netip.AddrPort{} // other servers may have one for the Service
	}
	if s.cfg.Bootstrap == BootstrapCluster {
		cfg.CA = s.credentials.CA()
	}
	to.objects = bootstrap.New(cfg)
	if s.cfg.Bootstrap == BootstrapAuto {
		cfg.Trust, cfg.Address = nil, netip.AddrPort{}
		cfg.CA, cfg.KeepOtherCAs, cfg.Flows = s.credentials.CA(), true, bootstrap.FlowsLeft
		to.upkeep = bootstrap.New(cfg)
	}
	return nil
}

// closeListener closes the listener if it is still open.
func (s *Server) closeListener() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the listener: %w", err)
	}
	return nil
}

// parts are what serve has made for the HTTP server.
type parts struct {
	callers
	refusals   *limit.Refusals
	audit      *audit.Log // nil: none
	collectors []prometheus.Collector
}

func (s *Server) apiConfig(live *kinds.Live, p parts) apiserver.Config {
	cfg := apiserver.Config{
		Authenticator: s.page.Reader().Authenticator(p.authenticator), PrivateHealth: s.cfg.Authentication.PrivateHealth,
		Tokens:     p.authenticator,
		FrontProxy: s.cfg.Authentication.FrontProxy.ClientCAFile != "",
		Discovery:  p.discovery, Ask: s.registry.Ask, Aggregator: s.behind,
		Reader: s.registry, Writer: s.registry, Count: s.registry.Count, Live: live, Logger: s.cfg.Logger,
		Version: Version(), Limits: s.cfg.Limits.requests(), Refusals: p.refusals,
		// The names are those that probes use.
		Checks: slices.Concat([]apiserver.Check{{Name: "etcd", Check: s.registry.Ready, Live: s.registry.Alive}},
			s.backend.checks, []apiserver.Check{
				{Name: "informer-sync", Check: s.registry.Ready, ReadyOnly: true},
				{Name: "start", Check: s.gate.Started, Boot: true},
			}),
		Authorizer: s.page.Reader().Authorizer(s.authorizer),
		Collectors: p.collectors,
		Compact:    s.compactFunc(),
		Backup:     s.backupFunc(),
		Status:     s.statusFunc(p.refusals),
		Audit:      p.audit,
		Tracing:    s.tracing,
	}
	if s.history != nil {
		cfg.History = s.history
	}
	if s.cfg.Faults != nil {
		cfg.Faults = control.Handler{Set: s.cfg.Faults}
		if s.backend.embedded != nil {
			cfg.TestCalls = control.Calls{Server: &testCalls{server: s, log: s.backend.embedded}}
		}
	}
	if p.audit != nil {
		cfg.Checks = append(cfg.Checks, apiserver.Check{Name: "audit-log", Check: p.audit.Check, ReadyOnly: true})
	}
	return cfg
}

// webServer returns the HTTP server.
func (s *Server) webServer(api *apiserver.Server) *http.Server {
	s.gate.API = api
	if s.backend.wrap != nil {
		s.gate.API = s.backend.wrap(api)
	}
	web := serve.WebServer(s.gate, s.credentials.ServerTLS, s.cfg.Limits.StreamsPerConnection, s.cfg.Logger)
	if seam.Of(&s.cfg).StopAtOnce {
		web.ConnState = s.busy.Note
	}
	return web
}

// drain ends watches, lets the requests in progress finish, and closes all connections.
func (s *Server) drain(ctx context.Context, api *apiserver.Server, web *http.Server) error {
	if s.faulty != nil {
		s.faulty.Drain() // first, so that requests that it delays are still served
	}
	api.Drain()
	limited, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	shutdown := web.Shutdown
	if seam.Of(&s.cfg).StopAtOnce {
		shutdown = func(ctx context.Context) error { return s.busy.Shutdown(ctx, web) }
	}
	if err := errors.Join(shutdown(limited), api.Wait(limited)); err != nil {
		s.cfg.Logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
		return errors.Join(web.Close(), s.closeListener())
	}
	return s.closeListener()
}

// Ready returns a channel that is closed once the server accepts requests.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// URL returns the URL of the server. It blocks until the server is ready.
func (s *Server) URL() string {
	<-s.ready
	return s.url()
}

func (s *Server) url() string { return serve.URL(s.listener) }

// Kubeconfig returns the path of the administrator's kubeconfig. It blocks until the
// server is ready.
func (s *Server) Kubeconfig() string {
	<-s.ready
	return s.kubeconfig
}

// RESTConfig returns a client configuration with the administrator's certificate. It
// blocks until the server is ready.
func (s *Server) RESTConfig() *rest.Config {
	<-s.ready
	cert, key := s.credentials.Admin()
	return &rest.Config{
		Host:            s.url(),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.credentials.CA(), CertData: cert, KeyData: key},
	}
}

// ClientConfig returns a client configuration with a new certificate for a user in some
// groups. It blocks until the server is ready.
func (s *Server) ClientConfig(name string, groups ...string) (*rest.Config, error) {
	<-s.ready
	cert, key, err := s.credentials.Issue(name, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            s.url(),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.credentials.CA(), CertData: cert, KeyData: key},
	}, nil
}

// Compact removes the history at or below a resource version. Current objects stay, and the history of resources that are
// in an etcd cluster of their own, whose resource versions are others. It
// blocks until the server is ready, and returns the resource version up to which history
// is removed.
func (s *Server) Compact(ctx context.Context, upTo kube.ResourceVersion) (kube.ResourceVersion, error) {
	<-s.ready
	return s.compact(ctx, store.Compaction{UpTo: int64(upTo)})
}

// ResourceVersion returns the latest resource version, that of the last write of any object, besides those in an etcd
// cluster of their own (Etcd.Overrides).
// It blocks until the server is ready.
func (s *Server) ResourceVersion(ctx context.Context) (kube.ResourceVersion, error) {
	<-s.ready
	rv, err := s.backend.store.Progress(ctx)
	return kube.ResourceVersion(rv), err //nolint:gosec // revisions are not negative
}

func (s *Server) compact(ctx context.Context, c store.Compaction) (kube.ResourceVersion, error) {
	done, err := s.registry.Compact(ctx, c)
	if future, ok := errors.AsType[*kube.TooLargeResourceVersionError](err); ok {
		return 0, wire.BadRequest("resourceVersion %d is ahead of the current one, %d: nothing was compacted",
			future.Requested, future.Current)
	}
	return done, err
}
