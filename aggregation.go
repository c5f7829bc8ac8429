package gapless

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/registry"
)

// Aggregation says how requests are passed on to the API servers that APIServices name. See docs/aggregation.md.
type Aggregation struct {
	// ProxyClientCertFile and ProxyClientKeyFile are the client certificate by which such a server trusts what this
	// one says about users: its CA is that of the other's --requestheader-client-ca-file. The files are read again when
	// they change. "": requests bring no certificate.
	ProxyClientCertFile, ProxyClientKeyFile string
}

// check returns an error for files that cannot be used.
func (a Aggregation) check() error {
	switch {
	case a.ProxyClientCertFile == "" && a.ProxyClientKeyFile == "":
		return nil
	case a.ProxyClientCertFile == "" || a.ProxyClientKeyFile == "":
		return errors.New("a client certificate for servers behind needs both files: " +
			"set --proxy-client-cert-file and --proxy-client-key-file, or neither")
	}
	if _, err := tls.LoadX509KeyPair(a.ProxyClientCertFile, a.ProxyClientKeyFile); err != nil {
		return fmt.Errorf("the client certificate for servers behind (--proxy-client-cert-file %s, --proxy-client-key-file %s): "+
			"want a certificate and its key in PEM: %w", a.ProxyClientCertFile, a.ProxyClientKeyFile, err)
	}
	return nil
}

// aggregate makes what passes requests on to other API servers, and lets it follow the registry.
func (s *Server) aggregate(cfg *registry.Config) {
	s.behind = aggregator.New(aggregator.Config{
		Cluster: s.cluster, Live: cfg.Live, Logger: s.cfg.Logger,
		CertFile: s.cfg.Aggregation.ProxyClientCertFile, KeyFile: s.cfg.Aggregation.ProxyClientKeyFile,
		Registers: s.cfg.Bootstrap != BootstrapNone, Shared: s.cfg.Etcd.used(),
	})
	cfg.Followers = append(cfg.Followers, s.behind)
}

// makeAPIServices makes those of the versions that this server serves, before it is ready.
func (s *Server) makeAPIServices(ctx context.Context) {
	if s.cfg.Bootstrap != BootstrapNone {
		s.behind.Make(ctx)
	}
}
