package gapless

import (
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/dashboard/port"
	"github.com/gapless-io/gapless/status"
)

// DashboardURL returns the URL of the dashboard, "" if there is none. It blocks until the server is ready.
func (s *Server) DashboardURL() string {
	<-s.ready
	return s.page.URL()
}

// shownPaths are what an open dashboard reads besides objects.
func (s *Server) shownPaths() []string {
	if s.cfg.Faults != nil {
		return []string{status.Path, fault.AdminPath}
	}
	return []string{status.Path}
}

// pages is what the dashboard shows.
func (s *Server) pages(refusals *limit.Refusals) port.Config {
	faults := ""
	if s.cfg.Faults != nil {
		faults = fault.AdminPath
	}
	return port.Config{
		Replicates: s.cfg.Etcd.used(), FaultsPath: faults,
		API: s.gate, Inside: s.gate, StatusPath: status.Path, Live: s.live, Watches: s.api.Watches,
		Expired: s.api.Expired,
		Reached: s.registry.Reached,
		TLS:     s.credentials.ServerTLS, Bounds: s.cfg.Limits.bounds(), Streams: s.cfg.Limits.StreamsPerConnection,
		Refusals: refusals, About: "serve " + Version().GitVersion, Logger: s.cfg.Logger,
	}
}

// DashboardURL returns the URL of the dashboard, "" if there is none. It blocks until the relay is ready.
func (r *Relay) DashboardURL() string {
	<-r.ready
	return r.page.URL()
}

// pages is what the dashboard shows.
func (r *Relay) pages() port.Config {
	return port.Config{
		API: r.front, Inside: r.front.Inside(), StatusPath: status.RelayPath, Live: r.relay.Live(), Watches: r.api.Watches,
		Expired: r.api.Expired, Mirrored: true,
		Reached: r.relay.Reached,
		TLS:     r.handshake, Bounds: r.cfg.Limits.bounds(), Streams: r.cfg.Limits.StreamsPerConnection,
		Refusals: r.refusals, About: "relay of " + r.cfg.Upstream.Host, Logger: r.cfg.Logger,
	}
}
