package gapless

import (
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/addresses"
	"github.com/gapless-io/gapless/internal/admission/guard"
	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/policy"
	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
)

// cluster is the registry for plugins that are made before it.
type cluster struct{ *registry.Registry }

var (
	_ addresses.Cluster = cluster{}
	_ guard.Cluster     = cluster{}
	_ plugins.Cluster   = cluster{}
	_ policy.Cluster    = cluster{}
	_ webhook.Cluster   = cluster{}
)

// Types implements policy.Cluster.
func (c cluster) Types(r *kinds.Resource) (managedfields.TypeConverter, error) {
	return c.Fields().Types(r)
}

// admit makes the authorizer and the admission plugins of a registry, in one chain, so that all
// are asked again when one of them has changed an object; policies come before webhooks, as
// upstream. They see the cluster when the registry is set.
func (s *Server) admit(cfg *registry.Config) {
	checks := s.authorize(cfg)
	authorizer := admission.Authorizer(s.authorizer)
	s.policies = policy.New(policy.Config{Live: cfg.Live, Cluster: s.cluster, Authorizer: authorizer, Logger: s.cfg.Logger})
	s.webhooks = webhook.New(webhook.Config{Live: cfg.Live, Cluster: s.cluster, Authorizer: authorizer, Logger: s.cfg.Logger})
	cfg.Followers = append(append(cfg.Followers, s.policies, s.webhooks), s.tables...)
	// Before policies and webhooks, as upstream.
	checks = append(checks, plugins.NewSet(s.plugins...),
		guard.New(guard.Config{Live: cfg.Live, Cluster: s.cluster, Authorizer: s.authorizer}),
		s.policies, s.webhooks)
	if s.cfg.Etcd.used() {
		checks = append(checks, addresses.New(s.cluster))
	}
	cfg.Admission = checks
}
