// Package proxy is a reverse proxy in front of an API server that can make requests fail.
//
// A [Config] says in front of what the proxy is and who may use it, and a [Proxy] is what
// runs. Watches and upgrades (WebSocket, SPDY) pass as they are.
package proxy

import (
	"context"
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
	"github.com/gapless-io/gapless/internal/faulthost"
	"github.com/gapless-io/gapless/internal/upstream"
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
	upstream    *upstream.Server
	credentials *auth.Credentials
}

// New checks the configuration, and opens or creates the proxy's certificates.
func New(cfg Config) (*Proxy, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("address to listen on: %w; want an address like 127.0.0.1:6444", err)
	case !cfg.Remote && !isLoopback(host):
		return nil, fmt.Errorf(
			"%s can be reached by other machines, and the proxy is for tests: use 127.0.0.1, or --allow-remote", cfg.Listen)
	case (cfg.Upstream == "") == (cfg.User == nil):
		return nil, errors.New("name one API server: by its URL (--upstream) or by a kubeconfig (--kubeconfig)")
	}
	faulthost.Of(cfg.Faults).SetNoStore()
	p := &Proxy{cfg: cfg}
	if p.upstream, err = cfg.target(); err != nil {
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

// connectWithin is how long a connection to the API server may take.
const connectWithin = 10 * time.Second

// target returns the API server, and the user of all requests or nobody.
func (c Config) target() (*upstream.Server, error) {
	if c.User != nil {
		s, err := upstream.Open(c.User, connectWithin)
		if err != nil {
			return nil, fmt.Errorf("the kubeconfig: %w", err)
		}
		return s, nil
	}
	u, err := url.Parse(c.Upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--upstream %q: want a URL like https://127.0.0.1:6443", c.Upstream)
	}
	if c.CA != nil && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		return nil, errors.New("--certificate-authority: there is no certificate in the file; want PEM")
	}
	return upstream.Open(&rest.Config{Host: c.Upstream, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}}, connectWithin)
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
	defer p.upstream.CloseIdle()
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
	faulty := p.cfg.Faults.Handler(http.HandlerFunc(p.pass))
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

// pass sends a request to the API server.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	p.upstream.Pass(w, r, upstream.Exchange{
		Rewrite: func(r *httputil.ProxyRequest) {
			if p.cfg.User != nil {
				r.Out.Header.Del("Authorization") // of the proxy, if any
			}
		},
		Failed: func(w http.ResponseWriter, r *http.Request, err error) {
			p.cfg.Logger.WarnContext(r.Context(), "the API server did not answer", slog.Any("error", err))
			fault.Refuse(w, upstream.Refusal("gapless proxy", err))
		},
		Logger: p.cfg.Logger,
	})
}
