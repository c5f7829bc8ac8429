// Package policy has the kinds of the group policy.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "policy", Version: "v1", Kind: "PodDisruptionBudget", Short: []string{"pdb"},
			Status: true, NeedsVersion: true, Name: kinds.SegmentName,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true, Table: budgetTable(),
		}, gokind.Rules[*policyv1.PodDisruptionBudget]{Object: validatePodDisruptionBudget}),
	}
}
