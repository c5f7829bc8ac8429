package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func budgetTable() kinds.Table {
	return table.Of(budgetCells, table.Name(),
		table.Str("Min Available", "The minimum number of pods that must be available."),
		table.Str("Max Unavailable", "The maximum number of pods that may be unavailable."),
		table.Integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
		table.Age())
}

func budgetCells(o *policyv1.PodDisruptionBudget, r table.Meta) []any {
	shown := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{r.Name, shown(o.Spec.MinAvailable), shown(o.Spec.MaxUnavailable), int64(o.Status.DisruptionsAllowed), r.Age}
}
