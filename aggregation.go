package gapless

import (
	"context"

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

// aggregate makes what passes requests on to other API servers, and lets it follow the registry.
func (s *Server) aggregate(cfg *registry.Config) {
	s.behind = aggregator.New(aggregator.Config{
		Cluster: s.cluster, Live: cfg.Live, Logger: s.cfg.Logger,
		CertFile: s.cfg.Aggregation.ProxyClientCertFile, KeyFile: s.cfg.Aggregation.ProxyClientKeyFile,
		Registers: s.cfg.Bootstrap != BootstrapNone, Shared: s.cfg.Etcd.used(),
	})
	cfg.Followers = append(cfg.Followers, s.behind)
	cfg.Elsewhere = s.behind
}

// makeAPIServices makes those of the versions that this server serves, before it is ready.
func (s *Server) makeAPIServices(ctx context.Context) {
	if s.cfg.Bootstrap != BootstrapNone {
		s.behind.Make(ctx)
	}
}
