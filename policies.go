package gapless

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/policy"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// admitPolicies adds the admission policies to a registry's admission, after what it has.
func (s *Server) admitPolicies(cfg *registry.Config, by auth.Authorizer) {
	s.policies = policy.New(policy.Config{
		Live: cfg.Live, Cluster: policyCluster{s}, Authorizer: admission.Authorizer(by), Logger: s.cfg.Logger,
	})
	cfg.Followers = append(cfg.Followers, s.policies)
	chain, is := cfg.Admission.(admission.Chain)
	if !is && cfg.Admission != nil {
		chain = admission.Chain{cfg.Admission}
	}
	cfg.Admission = append(chain, s.policies)
}

// policyCluster is the registry of a server for the plugin of policies, which is made before
// it.
type policyCluster struct{ server *Server }

var _ policy.Cluster = policyCluster{}

// Find implements policy.Cluster.
func (c policyCluster) Find(gr schema.GroupResource, key kube.Key) *kube.Object {
	return c.server.registry.Find(gr, key)
}

// Objects implements policy.Cluster.
func (c policyCluster) Objects(gr schema.GroupResource, namespace string) iter.Seq[*kube.Object] {
	return c.server.registry.Objects(gr, namespace)
}

// Show implements policy.Cluster.
func (c policyCluster) Show(ctx context.Context, to *schema.Resource, o *kube.Object) (*kube.Object, error) {
	return c.server.registry.Show(ctx, to, o)
}

// Convert implements policy.Cluster.
func (c policyCluster) Convert(ctx context.Context, v schema.Versions, content map[string]any) (map[string]any, error) {
	return c.server.registry.Convert(ctx, v, content)
}

// Types implements policy.Cluster.
func (c policyCluster) Types(r *schema.Resource) (managedfields.TypeConverter, error) {
	return c.server.registry.Fields().Types(r)
}
