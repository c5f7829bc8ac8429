package gapless

import (
	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/registry"
)

// cluster is the registry for plugins that are made before it.
type cluster struct{ *registry.Registry }

// admit adds the webhooks to a registry's admission, after what it has. They see the cluster
// when the registry is set.
func (s *Server) admit(cfg *registry.Config, by auth.Authorizer) {
	s.cluster = &cluster{}
	s.webhooks = webhook.New(webhook.Config{
		Live: cfg.Live, Cluster: s.cluster, Authorizer: admission.Authorizer(by), Logger: s.cfg.Logger,
	})
	cfg.Followers = append(cfg.Followers, s.webhooks)
	// One chain, so that all plugins are asked again when a webhook has changed an object.
	chain, is := cfg.Admission.(admission.Chain)
	if !is && cfg.Admission != nil {
		chain = admission.Chain{cfg.Admission}
	}
	cfg.Admission = append(chain, s.webhooks)
}
