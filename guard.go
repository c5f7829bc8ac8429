package gapless

import (
	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/guard"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// guardAdmission adds the checks of who configures admission to a registry's admission,
// after what it has.
func (s *Server) guardAdmission(cfg *registry.Config, by auth.Authorizer) {
	plugin := guard.New(guard.Config{Live: cfg.Live, Cluster: guardedCluster{s}, Authorizer: by})
	chain, is := cfg.Admission.(admission.Chain)
	if !is && cfg.Admission != nil {
		chain = admission.Chain{cfg.Admission}
	}
	cfg.Admission = append(chain, plugin)
}

// guardedCluster is the registry of a server for the plugin, which is made before it.
type guardedCluster struct{ server *Server }

var _ guard.Cluster = guardedCluster{}

// Find implements guard.Cluster.
func (c guardedCluster) Find(gr schema.GroupResource, key kube.Key) *kube.Object {
	return c.server.registry.Find(gr, key)
}
