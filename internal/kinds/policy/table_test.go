package policy_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/policy"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestPodDisruptionBudgetRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(policy.Kinds(), "poddisruptionbudgets.policy"),
		"Name | Min Available | Max Unavailable | Allowed Disruptions | Age",
		[]tabletest.Case{
			{"least", `{spec: {minAvailable: 2}, status: {disruptionsAllowed: 3}}`, "x | 2 | N/A | 3 | 90m"},
			{"most", `{spec: {maxUnavailable: 25%}}`, "x | N/A | 25% | 0 | 90m"},
		},
	)
}
