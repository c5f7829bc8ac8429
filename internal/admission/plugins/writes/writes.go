// Package writes has admission plugins that look at writes of every kind.
package writes

import (
	"context"
	"errors"

	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
)

// everything is every write, if it is one of these operations.
func everything(operations ...upstream.Operation) []plugins.Concern {
	return []plugins.Concern{{Resource: plugins.Everything, Operations: operations}}
}

// AlwaysAdmit is upstream's plugin of this name: it says nothing.
func AlwaysAdmit() plugins.Plugin { return plugins.Plugin{Name: "AlwaysAdmit"} }

// AutoProvisionName is the name of NamespaceAutoProvision.
const AutoProvisionName = "NamespaceAutoProvision"

// NamespaceAutoProvision is upstream's plugin of this name: an object is created with its namespace, if there is none. It
// is asked before every other plugin, by the registry, whose Config.ProvisionNamespaces it turns on.
func NamespaceAutoProvision() plugins.Plugin { return plugins.Plugin{Name: AutoProvisionName} }

// AlwaysDeny is upstream's plugin of this name: it refuses every write of a client.
func AlwaysDeny() plugins.Plugin {
	deny := func(_ context.Context, w *plugins.Write) error {
		return upstream.NewForbidden(w, errors.New("admission control is denying all modifications"))
	}
	return plugins.Plugin{
		Name: "AlwaysDeny", Concerns: everything(upstream.Create, upstream.Update, upstream.Delete), Admit: deny, Validate: deny,
	}
}

// NamespaceExists is upstream's plugin of this name: it refuses writes in namespaces that do not exist, which is what the
// plugin NamespaceLifecycle does with creations.
func NamespaceExists(cluster plugins.Cluster) plugins.Plugin {
	return plugins.Plugin{
		Name: "NamespaceExists", Concerns: everything(upstream.Create, upstream.Update, upstream.Delete),
		Validate: func(_ context.Context, w *plugins.Write) error {
			if w.GetNamespace() == "" || w.GetResource().GroupResource() == (kinds.GroupResource{Resource: "namespaces"}) {
				return nil
			}
			_, err := plugins.Namespace(cluster, w.GetNamespace())
			return err
		},
	}
}
