// Package node has the kind of the group node.k8s.io: container runtimes.
package node

import (
	nodev1 "k8s.io/api/node/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass", Plural: "runtimeclasses", Cluster: true,
			CreateOnUpdate: true, NeedsVersion: true, AnyFinalizers: true, Table: runtimeClassTable(),
		}, gokind.Rules[*nodev1.RuntimeClass]{
			Object: validateRuntimeClass, Update: validateRuntimeClassUpdate, Warn: warnRuntimeClass,
		}),
	}
}
