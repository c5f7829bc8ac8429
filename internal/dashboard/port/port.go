// Package port serves a dashboard at an address of its own.
//
// A [Port] listens. On a loopback address it is open: it reads the API as an auth.Reader, which no request from outside
// can be. On any other one, and with https:// before the address, it has TLS, and its callers the credentials of the API.
// [Config] says what a server, or a relay, shows.
package port

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/dashboard"
	"github.com/gapless-io/gapless/internal/serve"
)

// Flag is the flag with the address.
const Flag = "--dashboard-listen"

// secured stands before an address of which callers need credentials, whatever address it is.
const secured = "https://"

// Check returns an error for what is no address; "" is none.
func Check(address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(strings.TrimPrefix(address, secured)); err != nil {
		return fmt.Errorf("address of the dashboard (%s): %w; want an address like 127.0.0.1:6480, or "+
			"https://127.0.0.1:6480 for one that needs credentials", Flag, err)
	}
	return nil
}

// isOpen reports whether an address needs no credentials: it is of this machine, without asking DNS.
func isOpen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && dashboard.IsLoopback(host)
}

// CertificateHosts returns the names that a certificate needs for an address, as those of package serve.
func CertificateHosts(address string) []string {
	if address == "" || isOpen(address) {
		return nil
	}
	return serve.CertificateHosts(strings.TrimPrefix(address, secured))
}

// Port is an address at which a dashboard is served. A nil Port is none: its methods do nothing.
type Port struct {
	listener net.Listener
	reader   *auth.Reader // nil: callers have credentials
}

// Listen listens on an address; "" returns nil. paths are what the reader may get besides objects.
func Listen(ctx context.Context, address string, paths ...string) (*Port, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	listener, err := serve.Listen(ctx, nil, strings.TrimPrefix(address, secured))
	if err != nil {
		return nil, fmt.Errorf("dashboard (%s): %w", Flag, err)
	}
	p := &Port{listener: listener}
	if !isOpen(address) {
		return p, nil
	}
	if at, is := listener.Addr().(*net.TCPAddr); !is || !at.IP.IsLoopback() { // what is localhost there?
		return nil, errors.Join(fmt.Errorf("dashboard (%s): %s is %s, not a loopback address: name one, like 127.0.0.1:6480",
			Flag, address, listener.Addr()), listener.Close())
	}
	p.reader = auth.NewReader("gapless:dashboard", paths...)
	return p, nil
}

// Reader returns who reads for an open dashboard; nil: callers have credentials.
func (p *Port) Reader() *auth.Reader {
	if p == nil {
		return nil
	}
	return p.reader
}

// URL returns where it is served; "": nowhere.
func (p *Port) URL() string {
	switch {
	case p == nil:
		return ""
	case p.reader != nil:
		return "http://" + p.listener.Addr().String()
	}
	return serve.URL(p.listener)
}

// Close ends the listener of a port that does not Run.
func (p *Port) Close() {
	if p != nil {
		_ = p.listener.Close() // it may be closed
	}
}

// endWithin is how long requests in progress may take after the end.
const endWithin = time.Second

// Run serves until ctx ends, or stop is closed; streams end then.
func (p *Port) Run(ctx context.Context, stop <-chan struct{}, cfg Config) error {
	if p == nil {
		return nil
	}
	show := cfg.dashboard()
	if p.reader != nil {
		show.API, show.Open = cfg.Inside, p.reader.Mark
	}
	handler, err := dashboard.New(show)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	current := cfg.TLS
	if p.reader != nil {
		current = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} } // not used
	}
	web := serve.WebServer(handler, current, cfg.Streams, cfg.Logger) //nolint:contextcheck // a handshake has a context of its own
	web.BaseContext = func(net.Listener) context.Context { return ctx }
	listener := limit.NewListener(p.listener, cfg.Bounds, cfg.Refusals)
	served := make(chan error, 1)
	// It ends with the server, which is waited for.
	go func() {
		if p.reader != nil {
			served <- web.Serve(listener)
		} else {
			served <- web.ServeTLS(listener, "", "")
		}
	}()
	cfg.Logger.InfoContext(ctx, "serving the dashboard", slog.String("url", p.URL()))
	select {
	case err := <-served:
		_ = web.Close() // what is open; the listener is closed
		return fmt.Errorf("serve the dashboard: %w", err)
	case <-ctx.Done():
	case <-stop:
	}
	end()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if err := web.Shutdown(limited); err != nil {
		_ = web.Close() // the listener is closed, and clients are cut off
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the dashboard: %w", err)
	}
	return nil
}
