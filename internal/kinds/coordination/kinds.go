// Package coordination has the kinds of the group coordination.k8s.io.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "coordination.k8s.io", Version: "v1", Kind: "Lease", CreateOnUpdate: true, NeedsVersion: true,
			Complete: completeLease, AnyFinalizers: true, Table: leaseTable(),
		}, gokind.Rules[*coordinationv1.Lease]{Object: validateLease}),
	}
}
