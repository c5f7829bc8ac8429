package gapless

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/guard"
	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/quotas"
	"github.com/gapless-io/gapless/internal/admission/plugins/writes"
	"github.com/gapless-io/gapless/internal/admission/policy"
	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/failing"
	"github.com/gapless-io/gapless/internal/wire"
)

// cluster is the registry, the authorizer and the kinds for plugins that are made before them.
type cluster struct {
	*registry.Registry

	authorizer auth.Authorizer
	live       *kinds.Live
}

// asked is the authorizer of a cluster.
type asked struct{ of *cluster }

// Authorize implements auth.Authorizer.
func (a asked) Authorize(ctx context.Context, u user.Info, wanted auth.Attributes) error {
	return a.of.authorizer.Authorize(ctx, u, wanted)
}

// Decide implements auth.Authorizer.
func (a asked) Decide(ctx context.Context, u user.Info, wanted auth.Attributes) auth.Decision {
	return a.of.authorizer.Decide(ctx, u, wanted)
}

// Rules implements auth.Authorizer.
func (a asked) Rules(ctx context.Context, u user.Info, namespace string) (auth.Rules, error) {
	return a.of.authorizer.Rules(ctx, u, namespace)
}

var (
	_ addresses.Verbs = cluster{}
	_ guard.Cluster   = cluster{}
	_ plugins.Cluster = cluster{}
	_ policy.Cluster  = cluster{}
	_ quotas.Cluster  = cluster{}
	_ webhook.Cluster = cluster{}
)

// Types implements policy.Cluster.
func (c cluster) Types(r *kinds.Resource) (managedfields.TypeConverter, error) {
	return c.Fields().Types(r)
}

// ChangeStatus implements quotas.Cluster. What is done for many requests is none of theirs: rules of faults reach it by
// the name of the plugin.
func (c cluster) ChangeStatus(
	ctx context.Context, gr kinds.GroupResource, key wire.Key, manager string,
	do func(u *unstructured.Unstructured, current *wire.Object) error,
) (*wire.Object, error) {
	return c.Registry.ChangeStatus(failing.By(ctx, quotas.Name), gr, key, manager, do)
}

// admit makes the authorizer and the admission plugins of a registry, in one chain, so that all
// are asked again when one of them has changed an object; policies come before webhooks, as
// upstream. They see the cluster when the registry is set.
func (s *Server) admit(cfg *registry.Config) {
	checks := s.authorize(cfg)
	s.cluster.authorizer, s.cluster.live = s.authorizer, cfg.Live
	cfg.ProvisionNamespaces = slices.ContainsFunc(s.plugins, func(p plugins.Plugin) bool {
		return p.Name == writes.AutoProvisionName
	})
	authorizer := admission.Authorizer(s.authorizer)
	s.policies = policy.New(policy.Config{Live: cfg.Live, Cluster: s.cluster, Authorizer: authorizer, Logger: s.cfg.Logger})
	s.webhooks = webhook.New(webhook.Config{
		Live: cfg.Live, Cluster: s.cluster, Authorizer: authorizer, Logger: s.cfg.Logger,
		Shown: s.shown,
	})
	cfg.Followers = append(append(cfg.Followers, s.policies, s.webhooks), s.tables...)
	cfg.Followers = append(cfg.Followers, s.quotas.Table(), s.quotas.Classes())
	if slices.ContainsFunc(s.plugins, func(p plugins.Plugin) bool { return p.Name == quotas.Name }) {
		cfg.Charger = s.quotas
	}
	// Before policies and webhooks, as upstream.
	s.asked = plugins.NewSet(s.plugins...)
	checks = append(checks, s.asked,
		guard.New(guard.Config{Live: cfg.Live, Cluster: s.cluster, Authorizer: s.authorizer}),
		s.policies, s.webhooks)
	cfg.Admission = checks
}
