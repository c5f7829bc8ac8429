package gapless

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/stream"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/builtin"
	"github.com/gapless-io/gapless/internal/schema/openapi"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
)

// drainWithin is how long requests under way may take once the server stops.
const drainWithin = 10 * time.Second

// Server is a Kubernetes-compatible API server. All methods are safe for
// concurrent use; those that say so need a server that is ready.
type Server struct {
	cfg   Config
	ready chan struct{} // closed once it serves

	// Set before ready is closed, and not changed after.
	credentials *auth.Credentials
	listener    net.Listener
	kubeconfig  string
	registry    *registry.Registry
}

// New checks the configuration. It opens nothing and starts nothing.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, ready: make(chan struct{})}, nil
}

// Run opens the data, serves until ctx ends, and then drains: watches get a last
// bookmark and end, requests under way finish (for at most 10 s), and the log is
// closed. It is called once. It returns nil after ctx ended, and otherwise what
// went wrong and what to do about it.
func (s *Server) Run(ctx context.Context) (err error) {
	if s.cfg.DataDir == "" {
		dir, err := os.MkdirTemp("", "gapless-")
		if err != nil {
			return fmt.Errorf("make a temporary directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		s.cfg.DataDir = dir
	} else if err := checkDataDir(s.cfg.DataDir); err != nil {
		return err
	}
	log, err := revlog.Open(ctx, s.cfg.storeOptions())
	if err != nil {
		return fmt.Errorf("open the data directory: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.serve(ctx, log)
}

// open makes ready everything but the store.
func (s *Server) open(ctx context.Context) error {
	var err error
	if s.credentials, err = auth.Open(s.cfg.DataDir, certificateHosts(s.cfg.Listen)...); err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.listener, err = lc.Listen(ctx, "tcp", s.cfg.Listen); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%s is in use by another program: stop it, or listen elsewhere (127.0.0.1:0 picks a free port): %w", s.cfg.Listen, err)
		}
		return fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	if s.kubeconfig, err = s.credentials.WriteKubeconfig(s.url()); err != nil {
		return errors.Join(err, s.listener.Close())
	}
	return nil
}

// serve runs the store, the registry and the door, and ends them in the opposite
// order.
func (s *Server) serve(ctx context.Context, log *revlog.Log) error {
	live := schema.NewLive(builtin.Catalog())
	s.registry = registry.New(registry.Config{Store: log, Live: live, Logger: s.cfg.Logger, StrictFutureWatch: s.cfg.StrictFutureWatch})
	lasting := context.WithoutCancel(ctx)
	below, stopBelow := context.WithCancel(lasting)
	defer stopBelow()
	g, running := errgroup.WithContext(below)
	g.Go(func() error { return log.Run(running) })
	g.Go(func() error { return s.registry.Run(running) })
	door := apiserver.New(lasting, s.doorConfig(live, log))
	web := s.webServer(door)
	g.Go(func() error {
		if err := s.registry.WaitReady(running); err != nil {
			return nil //nolint:nilerr // Run of the registry returns the same error
		}
		close(s.ready)
		s.cfg.Logger.InfoContext(ctx, "serving", slog.String("url", s.url()))
		if err := web.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	// The drain ends what runs below it, in order, when ctx ends or one of them fails.
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
		defer stopBelow()
		s.cfg.Logger.InfoContext(ctx, "draining")
		door.Drain()
		limited, cancel := context.WithTimeout(lasting, drainWithin)
		defer cancel()
		if err := errors.Join(web.Shutdown(limited), door.Wait(limited)); err != nil {
			s.cfg.Logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
			return errors.Join(web.Close(), s.closeListener())
		}
		return s.closeListener()
	})
	return g.Wait()
}

// closeListener is for a server that never came to serve.
func (s *Server) closeListener() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the listener: %w", err)
	}
	return nil
}

func (s *Server) doorConfig(live *schema.Live, log *revlog.Log) apiserver.Config {
	return apiserver.Config{
		Reader: s.registry, Writer: s.registry, Live: live, Logger: s.cfg.Logger,
		Version: Version(),
		Checks: []apiserver.Check{
			{Name: "etcd", Check: s.registry.Ready}, // the names that probes ask for
			{Name: "informer-sync", Check: s.registry.Ready, ReadyOnly: true},
		},
		OpenAPI:    openapi.New(live),
		Collectors: []prometheus.Collector{newGauges(s.registry, log)},
		Compact: func(ctx context.Context, c apiserver.Compaction) (kube.ResourceVersion, error) {
			return s.compact(ctx, store.Compaction{UpTo: int64(c.UpTo), OlderThan: c.OlderThan})
		},
	}
}

// webServer has the limits of connections. Watches may be open for hours, so
// only headers have a time limit; dead peers are found by pings (HTTP/2) and by
// the time limit of each write (HTTP/1.1).
func (s *Server) webServer(door *apiserver.Server) *http.Server {
	return &http.Server{
		Handler:           door,
		TLSConfig:         s.credentials.ServerTLS(),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       90 * time.Second,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			stream.BoundUnsent(conn) // also of HTTP/2, whose clients choose their windows
			return ctx
		},
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 4000, // each watch of an informer is a stream
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     30 * time.Second,
		},
	}
}

// Ready is closed once the server serves.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// URL returns where the server listens, once it is ready.
func (s *Server) URL() string {
	<-s.ready
	return s.url()
}

func (s *Server) url() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// Kubeconfig returns the path of the administrator's kubeconfig, once the server
// is ready.
func (s *Server) Kubeconfig() string {
	<-s.ready
	return s.kubeconfig
}

// RESTConfig returns a client's configuration with the administrator's
// certificate, once the server is ready.
func (s *Server) RESTConfig() *rest.Config {
	<-s.ready
	cert, key := s.credentials.Admin()
	return &rest.Config{
		Host:            s.url(),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.credentials.CA(), CertData: cert, KeyData: key},
	}
}

// Compact forgets the history at or below a resource version now, once the
// server is ready. What is current stays. It returns up to where history is
// forgotten.
func (s *Server) Compact(ctx context.Context, upTo kube.ResourceVersion) (kube.ResourceVersion, error) {
	<-s.ready
	return s.compact(ctx, store.Compaction{UpTo: int64(upTo)})
}

func (s *Server) compact(ctx context.Context, c store.Compaction) (kube.ResourceVersion, error) {
	done, err := s.registry.Compact(ctx, c)
	if future, ok := errors.AsType[*kube.TooLargeResourceVersionError](err); ok {
		return 0, kube.BadRequest("resourceVersion %d is ahead of the current one, %d: nothing was forgotten", future.Requested, future.Current)
	}
	return done, err
}

// certificateHosts are the names that the serving certificate needs for an
// address, besides the loopback ones that it always has.
func certificateHosts(listen string) []string {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil
	}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{host}
	}
	var hosts []string
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return hosts
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}
