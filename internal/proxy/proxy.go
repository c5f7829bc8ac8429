// Package proxy is a reverse proxy in front of an API server that can make requests fail.
//
// It has two nouns. A [Config] says in front of what the proxy is and who may use it, and a
// [Proxy] is what runs. Watches and upgrades (WebSocket, SPDY) pass as they are.
package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/kube"
)

// Config is the configuration of a Proxy. One of Upstream and User is set.
type Config struct {
	// Upstream is the API server; callers' credentials of the header Authorization are passed
	// on. CA has the certificates of its CA as PEM; nil means the system's.
	Upstream string
	CA       []byte
	// User is the API server and the user of all requests. Then callers need the
	// certificate of the proxy's kubeconfig.
	User *rest.Config
	// Listen is the address. Unless Remote is set it must be of the loopback interface.
	Listen string
	Remote bool
	// Dir has the proxy's certificates and its kubeconfig; it is created if it is missing.
	Dir    string
	Faults *fault.Set
	Logger *slog.Logger
}

// Proxy is a reverse proxy with faults.
type Proxy struct {
	cfg         Config
	upstream    *url.URL
	transport   transports
	credentials *auth.Credentials
}

// New checks the configuration, and opens or creates the proxy's certificates.
func New(cfg Config) (*Proxy, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("address to listen on: %w; want an address like 127.0.0.1:6444", err)
	case !cfg.Remote && !isLoopback(host):
		return nil, fmt.Errorf("%s can be reached by other machines, and the proxy is for tests: use 127.0.0.1, or --allow-remote", cfg.Listen)
	case (cfg.Upstream == "") == (cfg.User == nil):
		return nil, errors.New("name one API server: by its URL (--upstream) or by a kubeconfig (--kubeconfig)")
	}
	cfg.Faults.SetNoStore()
	p := &Proxy{cfg: cfg}
	if cfg.User != nil {
		err = p.asUser(rest.CopyConfig(cfg.User))
	} else {
		err = p.asCaller()
	}
	if err != nil {
		return nil, err
	}
	p.credentials, err = auth.Open(cfg.Dir, auth.Options{Hosts: hosts(host)})
	return p, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hosts returns the names for the proxy's certificate besides the loopback ones.
func hosts(host string) []string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return nil
	}
	return []string{host}
}

// asUser sends requests as the user of a client configuration.
func (p *Proxy) asUser(cfg *rest.Config) error {
	cfg.DisableCompression = true // what the server compresses passes compressed
	var err error
	if p.upstream, _, err = rest.DefaultServerUrlFor(cfg); err != nil {
		return fmt.Errorf("the server of the kubeconfig: %w", err)
	}
	if p.transport.plain, err = rest.TransportFor(cfg); err != nil {
		return fmt.Errorf("the credentials of the kubeconfig: %w", err)
	}
	cfg.NextProtos = []string{"http/1.1"}
	if p.transport.upgrade, err = rest.TransportFor(cfg); err != nil {
		return fmt.Errorf("the credentials of the kubeconfig: %w", err)
	}
	return nil
}

// dialWithin is how long a connection to the API server may take.
const dialWithin = 10 * time.Second

// asCaller passes the callers' credentials on.
func (p *Proxy) asCaller() error {
	u, err := url.Parse(p.cfg.Upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--upstream %q: want a URL like https://127.0.0.1:6443", p.cfg.Upstream)
	}
	p.upstream = u
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.cfg.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(p.cfg.CA) {
			return errors.New("--certificate-authority: there is no certificate in the file; want PEM")
		}
	}
	plain := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableCompression: true, ForceAttemptHTTP2: true,
		DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext, TLSHandshakeTimeout: dialWithin, IdleConnTimeout: 90 * time.Second,
		// A server that is gone silently is noticed, as by client-go.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	upgrade := plain.Clone()
	upgrade.ForceAttemptHTTP2 = false
	upgrade.TLSClientConfig.NextProtos = []string{"http/1.1"}
	p.transport = transports{plain: plain, upgrade: upgrade}
	return nil
}

// transports send requests to the API server: those to switch protocols need HTTP/1.1.
type transports struct{ plain, upgrade http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return t.upgrade.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

func (t transports) close() {
	for _, rt := range []http.RoundTripper{t.plain, t.upgrade} {
		if c, is := rt.(interface{ CloseIdleConnections() }); is {
			c.CloseIdleConnections()
		}
	}
}

// Run serves until ctx ends. It calls ready with the proxy's URL and the path of its
// kubeconfig when it listens. It is called once.
func (p *Proxy) Run(ctx context.Context, ready func(url, kubeconfig string)) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", p.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", p.cfg.Listen, err)
	}
	address := "https://" + listener.Addr().String()
	kubeconfig, err := p.credentials.WriteKubeconfig(address)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	web := &http.Server{
		Handler: p.handler(), TLSConfig: p.credentials.ServerTLS(), ConnContext: p.cfg.Faults.ConnContext,
		// Requests end with ctx: a watch would not.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second,
		ErrorLog: slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
	}
	defer p.transport.close()
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		ready(address, kubeconfig)
		if err := web.ServeTLS(p.cfg.Faults.Listener(listener), "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-running.Done()
		p.cfg.Faults.Clear() // what is delayed or silent ends
		const drainWithin = 3 * time.Second
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
		defer cancel()
		if web.Shutdown(limited) != nil {
			return web.Close()
		}
		return nil
	})
	return g.Wait()
}

// handler lets requests in, and applies the faults to them.
func (p *Proxy) handler() http.Handler {
	faulty := p.cfg.Faults.Handler(p.reverse())
	rules := control.Handler{Set: p.cfg.Faults}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRules := r.URL.Path == fault.AdminPath || strings.HasPrefix(r.URL.Path, fault.AdminPath+"/")
		if isRules || p.cfg.User != nil {
			if err := authorize(r); err != nil {
				fault.Refuse(w, err)
				return
			}
		}
		if isRules {
			rules.ServeHTTP(w, r)
			return
		}
		faulty.ServeHTTP(w, r)
	})
}

// authorize requires the certificate of the proxy's kubeconfig.
func authorize(r *http.Request) error {
	caller, err := (auth.Certificates{}).Authenticate(r)
	if err != nil {
		return err
	}
	return auth.MastersOnly{}.Authorize(r.Context(), caller, auth.Attributes{Verb: strings.ToLower(r.Method), Path: r.URL.Path})
}

// reverse sends requests to the API server.
func (p *Proxy) reverse() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.upstream)
			if p.cfg.User != nil {
				r.Out.Header.Del("Authorization") // of the proxy, if any
			}
		},
		Transport:     p.transport,
		FlushInterval: -1, // each event of a watch at once
		ErrorLog:      slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the client has left, or the proxy stops
			}
			p.cfg.Logger.WarnContext(r.Context(), "the API server cannot be reached", slog.Any("error", err))
			fault.Refuse(w, kube.Unavailable(fmt.Sprintf("gapless proxy: reach %s: %v", p.upstream.Host, err), time.Second))
		},
	}
}
